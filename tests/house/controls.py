"""The table of controls: what stands against each threat, how to take it away, who would notice."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from house.repository import ROOT

TABLES = ROOT / "tools" / "controls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A place in a file where a control stands, and what stands there without it."""

    file: str
    text: str
    without: str

    def applied(self, root: Path) -> None:
        """Take the control away, in the tree that begins there."""
        path = root / self.file
        path.write_text(path.read_text("utf-8").replace(self.text, self.without), "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Something that stands against a threat."""

    #: As a sentence that is false once the control is gone.
    name: str
    #: A row of the table in docs/concepts/trust.md.
    threat: str
    #: More than one where each of them alone would do: they are taken away together.
    breaks: tuple[Break, ...]
    #: Files or single tests, of which one must fail then.
    tests: tuple[str, ...]


def controls() -> Iterator[Control]:
    """Every control there is, in the order of the tables."""
    for table in sorted(TABLES.glob("*.toml")):
        for threat, rows in tomllib.loads(table.read_text("utf-8")).items():
            for row in rows:
                yield _control(threat, row)


def _control(threat: str, row: dict[str, object]) -> Control:
    match row:
        case {"name": str(name), "tests": list(tests), **rest}:
            breaks = rest.pop("together", None) or [rest]
            assert isinstance(breaks, list), name
            made = tuple(Break(**one) for one in breaks)
            return Control(name=name, threat=threat, breaks=made, tests=tuple(map(str, tests)))
    raise AssertionError(row)
