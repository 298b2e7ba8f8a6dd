"""Security controls: for each, the threat, the edit that removes the control, and the tests."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from project.repository import ROOT

TABLES = ROOT / "tools" / "controls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Edit of the source: the text of a security control, and the text to replace it with."""

    file: str
    text: str
    without: str

    def applied(self, root: Path) -> None:
        path = root / self.file
        path.write_text(path.read_text("utf-8").replace(self.text, self.without), "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Protection against one threat, and the tests that must fail without it."""

    #: Sentence about the control, which is false if the control is removed.
    name: str
    #: Name of the threat in the table in docs/concepts/trust.md.
    threat: str
    #: Edits of the source that remove the control. If one of several protections is enough against
    #: the threat, these edits remove all of them.
    breaks: tuple[Mutation, ...]
    #: Test files or single tests, of which at least one must fail without the control.
    tests: tuple[str, ...]


def controls() -> Iterator[Control]:
    """Yield every security control, in the order of the files that define them."""
    for table in sorted(TABLES.glob("*.toml")):
        for threat, rows in tomllib.loads(table.read_text("utf-8")).items():
            for row in rows:
                yield _control(threat, row)


def _control(threat: str, row: dict[str, object]) -> Control:
    match row:
        case {"name": str(name), "tests": list(tests), **rest}:
            breaks = rest.pop("together", None) or [rest]
            assert isinstance(breaks, list), name
            made = tuple(Mutation(**fields) for fields in breaks)
            return Control(name=name, threat=threat, breaks=made, tests=tuple(map(str, tests)))
    raise AssertionError(row)
