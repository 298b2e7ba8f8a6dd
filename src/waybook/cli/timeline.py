"""The timeline: when each step was worked on, on one axis; long pauses are folded."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.text import Text

from waybook.cli.looks import STEP_LOOKS
from waybook.plan.states import StepStatus
from waybook.usecases.watch_plan import Move

#: A pause longer than this part of the work is folded to it.
LONGEST_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one step's life, and how it is to be coloured."""

    start: datetime
    end: datetime
    status: StepStatus


def spans_of(moves: Iterable[Move], now: datetime) -> dict[str, list[Span]]:
    """For each step, when it was worked on or waited for a person."""
    found: dict[str, list[Span]] = defaultdict(list)
    since: dict[str, Move] = {}
    for move in moves:
        begun = since.pop(move.step_id, None)
        if begun is not None:
            found[move.step_id].append(Span(begun.at, move.at, _outcome(begun, move)))
        if move.status in {StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT}:
            since[move.step_id] = move
    for step_id, begun in since.items():
        found[step_id].append(Span(begun.at, max(now, begun.at), begun.status))
    return found


def _outcome(begun: Move, ended: Move) -> StepStatus:
    """Waiting stays waiting; work is coloured by what came of it."""
    if begun.status is StepStatus.AWAITING_INPUT:
        return StepStatus.AWAITING_INPUT
    failed = ended.status is StepStatus.FAILED
    return StepStatus.FAILED if failed else StepStatus.COMPLETED


class Axis:
    """Time as columns: the time in which work went on, with the long pauses folded.

    Waiting for a person is a pause too.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        """Fold the pauses between these spans."""
        worked = [span for span in spans if span.status is not StepStatus.AWAITING_INPUT]
        self._busy = _merged(worked)
        self.worked = sum((end - start for start, end in self._busy), timedelta())
        self._pause = self.worked * LONGEST_PAUSE
        self._length = max((self._place(span.end) for span in spans), default=timedelta())

    def column(self, at: datetime, width: int) -> int:
        """The column of a moment, of so many."""
        if not self._length:
            return 0
        return min(width - 1, int(width * (self._place(at) / self._length)))

    def _place(self, at: datetime) -> timedelta:
        place = timedelta()
        for number, (start, end) in enumerate(self._busy):
            if number:
                pause = min(at, start) - self._busy[number - 1][1]
                place += min(pause, self._pause)
            if at <= end:
                return place + max(at - start, timedelta())
            place += end - start
        return place + min(at - self._busy[-1][1], self._pause) if self._busy else place


def _merged(spans: Iterable[Span]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end))
        else:
            merged.append((span.start, span.end))
    return merged


def drawn(spans: Sequence[Span], axis: Axis, width: int) -> Text:
    """One step's spans as a line of this width at most."""
    cells: list[StepStatus | None] = [None] * width
    for span in spans:
        first, last = axis.column(span.start, width), axis.column(span.end, width)
        for column in range(first, max(first + 1, last)):
            cells[column] = span.status
    line = Text(no_wrap=True)
    for status in cells:
        if status is None:
            line.append(" ")
        else:
            glyph = "┄" if status is StepStatus.AWAITING_INPUT else "━"
            line.append(glyph, style=STEP_LOOKS[status].style.removeprefix("bold "))
    line.rstrip()
    return line


def time_spent(spans: Iterable[Span]) -> timedelta:
    """How long a step was worked on, all tries together, without the waiting."""
    worked = (s.end - s.start for s in spans if s.status is not StepStatus.AWAITING_INPUT)
    return sum(worked, timedelta())
