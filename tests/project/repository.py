"""Files, modules and pages of the repository, for tests of their structure."""

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "waybook"
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_HEADING = re.compile(r"^(#+) +(.+?) *$")


@dataclass(frozen=True, slots=True)
class Module:
    """Module of the source: its path, its text and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Return the path in the repository, for messages of failed tests."""
        return str(self.path.relative_to(ROOT))


@cache
def modules() -> tuple[Module, ...]:
    # Parsing creates a million syntax tree nodes that all stay in use, so garbage collection would
    # only cost time.
    gc.disable()
    try:
        paths = [(path, path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))]
        return tuple(Module(path, text, ast.parse(text)) for path, text in paths)
    finally:
        gc.freeze()
        gc.enable()


@cache
def tracked() -> tuple[Path, ...]:
    """Return the files that git tracks, and new files that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


@cache
def pages() -> tuple[Path, ...]:
    return (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))


def read(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text(encoding="utf-8")


def headings(text: str, level: int | None = None) -> list[str]:
    """Return the headings of a page without backticks; skip code blocks."""
    matches = (_HEADING.match(line) for line in prose_lines(text))
    return [
        matched[2].replace("`", "")
        for matched in matches
        if matched and level in {None, len(matched[1])}
    ]


def sections(text: str, level: int) -> dict[str, str]:
    """Return the texts below the headings of this level, by heading."""
    mark = re.compile(rf"^{'#' * level} +(.+?) *$", re.MULTILINE)
    pieces = mark.split(text)[1:]
    return {
        name.replace("`", ""): body for name, body in zip(pieces[::2], pieces[1::2], strict=True)
    }


def prose_lines(text: str) -> Iterator[str]:
    """Yield the lines of a page that are not in a code block."""
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield line


def code_blocks(text: str, *languages: str) -> list[str]:
    """Return the code blocks of a page that are in one of these languages."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for language, body in blocks if language in languages]
