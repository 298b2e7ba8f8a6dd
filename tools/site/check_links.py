"""Check every internal link of the built documentation site: file and anchor must exist.

The site generator checks only links between pages. This script also checks links to pictures,
examples and source files.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Parser that collects the link targets and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.links.add(value)
            if name in {"id", "name"} and value:
                self.anchors.add(value)


@cache
def read_page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def is_broken(site: Path, path: Path, link: str) -> bool:
    """Return whether the file or the anchor of a link is missing."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    start = site if parts.path.startswith("/") else path.parent
    target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return True
    is_page = target.suffix == ".html" and parts.fragment
    return bool(is_page and unquote(parts.fragment) not in read_page(target).anchors)


def broken_links(site: Path) -> list[str]:
    """Return the broken links of a site, with the pages that contain them."""
    return [
        f"{path.relative_to(site)}: {link}"
        for path in sorted(site.rglob("*.html"))
        # Leave out 404.html: its links are absolute, because it is shown at any address.
        if path.name != "404.html"
        for link in sorted(read_page(path).links)
        if is_broken(site, path, link)
    ]


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(["Broken links:", *broken]) if broken else 0)
