"""The official MCP conformance suite, installed at a locked version and run by Node.js."""

import asyncio
import json
import re
from pathlib import Path
from typing import Final

from node_packages import NODE, environment
from patience import PATIENCE_SECONDS

HERE: Final = Path(__file__).parent
SUITE: Final = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
SCENARIO: Final = re.compile(r"server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")


async def verdicts(folder: Path, url: str, revision: str, results: Path) -> dict[str, bool]:
    process = await asyncio.create_subprocess_exec(
        str(NODE / "bin/node"),
        str(folder / SUITE),
        *("server", "--url", url, "--requirements", revision, "--output-dir", str(results)),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    outcomes = read_results(results)
    assert outcomes, output.decode()
    return outcomes


def read_results(results: Path) -> dict[str, bool]:
    """Return whether each scenario passed, from the folders with the suite's results."""
    outcomes = {}
    for checks in results.glob("*/checks.json"):
        matched = SCENARIO.fullmatch(checks.parent.name)
        assert matched is not None, checks
        outcomes[matched[1]] = passed(json.loads(checks.read_text()))
    return outcomes


def passed(checks: list[dict[str, str]]) -> bool:
    """Return whether a scenario passed: no check failed or gave a warning, and one succeeded.

    The check of message schemas is part of every scenario, so its success alone is not enough.
    """
    statuses = {check["status"] for check in checks}
    proven = any(
        check["status"] == "SUCCESS" and check["id"] != "wire-schema-valid" for check in checks
    )
    return proven and not statuses & {"FAILURE", "WARNING"}
