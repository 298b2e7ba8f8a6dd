"""Line diff between two results or documents, bounded in time and size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import takewhile
from typing import Final

import orjson

from waybook.json_values import Json

MAX_DIFF_LENGTH: Final = 200_000
#: Maximum number of changed lines in a comparison, which would otherwise take too long.
MAX_CHANGED_LINES: Final = 1_000
_CONTEXT_LINES: Final = 3


class LineKind(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    OMITTED = "omitted"


@dataclass(frozen=True, slots=True)
class _DiffLine:
    kind: LineKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The lines that differ between two texts."""

    lines: tuple[_DiffLine, ...] = ()
    added: int = 0
    removed: int = 0
    note: str = ""


TOO_LONG: Final = Diff(note="The texts are too long to compare here.")


def result_text(result: Json) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    return orjson.dumps(result, option=orjson.OPT_INDENT_2).decode()


def compare_texts(old: str, new: str) -> Diff:
    r"""Return the changed lines between two texts, with a few unchanged lines around each.

    >>> [(line.kind.value, line.text) for line in compare_texts("a\nb", "a\nc").lines]
    [('same', 'a'), ('removed', 'b'), ('added', 'c')]
    """
    if max(len(old), len(new)) > MAX_DIFF_LENGTH:
        return TOO_LONG
    before, after = old.splitlines(), new.splitlines()
    head = _common_length(before, after)
    tail = _common_length(before[head:][::-1], after[head:][::-1])
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(map(len, middle)) > MAX_CHANGED_LINES:
        return TOO_LONG
    changed = [*_lines_of_change(*middle)]
    same = [_DiffLine(LineKind.SAME, line) for line in before]
    every = [*same[:head], *changed, *same[len(before) - tail :]]
    return Diff(
        lines=tuple(_near_changes(every)),
        added=sum(line.kind is LineKind.ADDED for line in changed),
        removed=sum(line.kind is LineKind.REMOVED for line in changed),
    )


def _common_length(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _lines_of_change(before: Sequence[str], after: Sequence[str]) -> Iterator[_DiffLine]:
    matcher = SequenceMatcher(None, before, after)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield from (_DiffLine(LineKind.SAME, line) for line in before[start:end])
            continue
        yield from (_DiffLine(LineKind.REMOVED, line) for line in before[start:end])
        yield from (_DiffLine(LineKind.ADDED, line) for line in after[new_start:new_end])


def _near_changes(lines: Sequence[_DiffLine]) -> Iterator[_DiffLine]:
    shown = [False] * len(lines)
    for number, line in enumerate(lines):
        if line.kind is not LineKind.SAME:
            first, last = max(0, number - _CONTEXT_LINES), number + _CONTEXT_LINES + 1
            shown[first:last] = [True] * len(shown[first:last])
    if not any(shown):
        return
    omitted = 0
    for line, is_shown in zip(lines, shown, strict=True):
        if not is_shown:
            omitted += 1
            continue
        if omitted:
            yield _DiffLine(LineKind.OMITTED, str(omitted))
            omitted = 0
        yield line
    if omitted:
        yield _DiffLine(LineKind.OMITTED, str(omitted))
