"""Security controls: each with a threat, an edit that removes it, and tests that then fail."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from project.repository import ROOT

TABLES = ROOT / "tools" / "controls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Source text of a security control, and the replacement that removes the control."""

    file: str
    text: str
    without: str

    def applied(self, root: Path) -> None:
        path = root / self.file
        path.write_text(path.read_text("utf-8").replace(self.text, self.without), "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Security control: protection against one threat."""

    #: Sentence about the control that becomes false when the control is removed.
    name: str
    #: Threat that the control counters, as worded in its row of the table in
    #: docs/concepts/trust.md.
    threat: str
    #: Source edits that remove the control. If several protections are each sufficient, the edits
    #: remove all of them.
    breaks: tuple[Mutation, ...]
    #: Test files or single tests, at least one of which must fail without the control.
    tests: tuple[str, ...]


def controls() -> Iterator[Control]:
    """Yield every security control, in the order of the tables."""
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
