"""The published tool schemas are accepted by the validators of JavaScript clients."""

import json
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from missing_programs import NODE_PACKAGES
from node_packages import NODE, Unreachable, environment, install
from transport.conformance.suite import HERE
from waybook.transport.mcp.tools import FILE, published_tools


def refused_schemas(tools: Path) -> dict[str, str]:
    """Return the error of ajv (in strict mode) or zod, for each tool whose schema is refused."""
    try:
        packages = install(HERE, "conformance")
    except Unreachable as error:
        NODE_PACKAGES.skip(str(error))
    command = [str(NODE / "bin/node"), str(HERE / "schemas.mjs"), str(packages), str(tools)]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True, text=True)
    refused: dict[str, str] = json.loads(done.stdout)
    return refused


@pytest.mark.conformance
def test_ajv_and_zod_accept_the_schema_of_every_tool() -> None:
    assert len(published_tools()) > 0
    published = files("waybook.transport.mcp").joinpath(FILE)
    assert refused_schemas(Path(str(published))) == {}


@pytest.mark.conformance
def test_schema_with_an_unknown_keyword_is_refused(tmp_path: Path) -> None:
    bad = {"type": "object", "properties": {"a": {"type": "string", "minimal": 1}}}
    (tmp_path / "tools.json").write_text(json.dumps({"odd": {"tool": {"inputSchema": bad}}}))
    assert set(refused_schemas(tmp_path / "tools.json")) == {"odd"}
