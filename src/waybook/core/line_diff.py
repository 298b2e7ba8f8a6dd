"""Line diff of two texts, bounded in time and size."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final, NamedTuple

#: Maximum number of lines of each text that are compared. The time of a comparison grows with the
#: product of the numbers of lines.
MAX_LINES: Final = 1_000
#: Number of equal lines that are shown before and after a change.
CONTEXT_LINES: Final = 3


class DiffKind(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    #: Equal lines that are left out; the text is their number.
    OMITTED = "omitted"


class DiffLine(NamedTuple):
    kind: DiffKind
    text: str


def diff_lines(old: str, new: str) -> list[DiffLine]:
    r"""Return the lines that differ, with a few equal lines around them; empty for equal texts.

    >>> [(str(kind), text) for kind, text in diff_lines("a\nb\nc", "a\nB\nc")]
    [('same', 'a'), ('removed', 'b'), ('added', 'B'), ('same', 'c')]
    >>> diff_lines("a", "a")
    []
    """
    return list(_lines(old.splitlines()[:MAX_LINES], new.splitlines()[:MAX_LINES]))


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    shown = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT_LINES):
        start = group[0][1]
        if start > shown:
            yield DiffLine(DiffKind.OMITTED, str(start - shown))
        for tag, first, last, new_first, new_last in group:
            if tag == "equal":
                yield from (DiffLine(DiffKind.SAME, line) for line in old[first:last])
                continue
            yield from (DiffLine(DiffKind.REMOVED, line) for line in old[first:last])
            yield from (DiffLine(DiffKind.ADDED, line) for line in new[new_first:new_last])
        shown = group[-1][2]
    if 0 < shown < len(old):
        yield DiffLine(DiffKind.OMITTED, str(len(old) - shown))
