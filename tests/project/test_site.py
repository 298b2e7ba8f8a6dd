"""Documentation site: its navigation is complete, and its link check detects broken links."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from project.repository import ROOT, pages

broken_links = run_path(str(ROOT / "tools" / "site" / "check_links.py"))["broken_links"]
stage = run_path(str(ROOT / "tools" / "site" / "stage.py"))["stage"]


def listed_pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from listed_pages(below if isinstance(below, list) else [below])


def test_site_navigation_lists_every_docs_page_once() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = sorted(listed_pages(config["project"]["nav"]))
    assert listed == sorted(str(page.relative_to(ROOT)) for page in pages())


def test_site_build_copies_pages_and_linked_files(tmp_path: Path) -> None:
    stage(tmp_path)
    for name in ("README.md", "docs/start.md", "examples/one_agent.py", "docs/pictures/map.svg"):
        assert (tmp_path / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("other.html", False),
        ("other.html#there", False),
        ("folder/", False),
        ("https://example.org/missing", False),
        ("missing.html", True),
        ("other.html#missing", True),
        ("#missing", True),
        ("folder/missing.py", True),
        ("../outside.html", True),
    ],
)
def test_link_check_reports_links_to_missing_files_and_headings(
    tmp_path: Path, link: str, *, is_broken: bool
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text("")
    (tmp_path / "other.html").write_text('<h2 id="there"></h2>')
    (tmp_path / "page.html").write_text(f'<a href="{link}"></a>')
    assert broken_links(tmp_path) == ([f"page.html: {link}"] if is_broken else [])
