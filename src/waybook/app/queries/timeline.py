"""Timeline: when each step was worked on, on an axis that shortens long pauses."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from waybook.plan.model import StepStatus
from waybook.store.plans.details import StepStatusChange

#: A pause longer than this share of the working time is shortened.
MAX_IDLE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    start: datetime
    end: datetime
    status: StepStatus

    @property
    def length(self) -> timedelta:
        return self.end - self.start


def spans_of(moves: Iterable[StepStatusChange], now: datetime) -> dict[str, list[Span]]:
    spans: dict[str, list[Span]] = defaultdict(list)
    since: dict[str, StepStatusChange] = {}
    for move in moves:
        begun = since.pop(move.step_id, None)
        if begun is not None:
            spans[move.step_id].append(Span(begun.at, move.at, _outcome(begun, move)))
        if move.status in {StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT}:
            since[move.step_id] = move
    for step_id, begun in since.items():
        spans[step_id].append(Span(begun.at, max(now, begun.at), begun.status))
    return spans


def _outcome(begun: StepStatusChange, ended: StepStatusChange) -> StepStatus:
    if begun.status is StepStatus.AWAITING_INPUT:
        return StepStatus.AWAITING_INPUT
    failed = ended.status is StepStatus.FAILED
    return StepStatus.FAILED if failed else StepStatus.COMPLETED


class Axis:
    """Time axis on which long pauses between work are shortened."""

    def __init__(self, spans: Sequence[Span]) -> None:
        worked = [span for span in spans if span.status is not StepStatus.AWAITING_INPUT]
        self._busy = _merged(worked)
        self._starts = [start for start, _ in self._busy]
        self.worked = sum((end - start for start, end in self._busy), timedelta())
        self._pause = self.worked * MAX_IDLE_SHARE
        self._places = self._placed()
        self._length = max((self._place(span.end) for span in spans), default=timedelta())

    def column(self, at: datetime, width: int) -> int:
        if not self._length:
            return 0
        return min(width - 1, int(width * (self._place(at) / self._length)))

    def cuts(self, width: int) -> list[int]:
        ends = [end for (_, end), (start, _) in pairwise(self._busy) if start - end > self._pause]
        return [self.column(end + self._pause / 2, width) for end in ends]

    def _placed(self) -> list[timedelta]:
        places, place = list[timedelta](), timedelta()
        for number, (start, end) in enumerate(self._busy):
            if number:
                place += min(start - self._busy[number - 1][1], self._pause)
            places.append(place)
            place += end - start
        return places

    def _place(self, at: datetime) -> timedelta:
        number = bisect_right(self._starts, at) - 1
        if number < 0:
            return timedelta()
        start, end = self._busy[number]
        return self._places[number] + min(at, end) - start + self._after(at, end)

    def _after(self, at: datetime, end: datetime) -> timedelta:
        return min(max(at - end, timedelta()), self._pause)


def _merged(spans: Iterable[Span]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], span.end))
        else:
            merged.append((span.start, span.end))
    return merged


def time_spent(spans: Iterable[Span]) -> timedelta:
    worked = (s.length for s in spans if s.status is not StepStatus.AWAITING_INPUT)
    return sum(worked, timedelta())


def time_waited(spans: Iterable[Span]) -> timedelta:
    waited = (s.length for s in spans if s.status is StepStatus.AWAITING_INPUT)
    return sum(waited, timedelta())
