"""The repository as the house tests read it: its files, its modules, its pages."""

import ast
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
    """One module of the source: where it is, what it says, its tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path as a reader of a failing test wants it."""
        return str(self.path.relative_to(ROOT))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the source."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path, text, ast.parse(text)))
    return tuple(found)


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that is under version control, or about to be."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


@cache
def pages() -> tuple[Path, ...]:
    """Every page people read."""
    return (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))


def read(*parts: str) -> str:
    """A page of the docs."""
    return DOCS.joinpath(*parts).read_text(encoding="utf-8")


def headings(text: str, level: int | None = None) -> list[str]:
    """The headings of a page, without their backticks, outside of code."""
    found = (_HEADING.match(line) for line in prose_lines(text))
    return [
        matched[2].replace("`", "")
        for matched in found
        if matched and level in {None, len(matched[1])}
    ]


def sections(text: str, level: int) -> dict[str, str]:
    """The text below each heading of a level, by heading."""
    mark = re.compile(rf"^{'#' * level} +(.+?) *$", re.MULTILINE)
    pieces = mark.split(text)[1:]
    return {
        name.replace("`", ""): body for name, body in zip(pieces[::2], pieces[1::2], strict=True)
    }


def prose_lines(text: str) -> Iterator[str]:
    """The lines of a page that stand outside of its code blocks."""
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield line


def code_blocks(text: str, *languages: str) -> list[str]:
    """The code blocks of a page in one of these languages."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [body for language, body in blocks if language in languages]
