"""Times when steps and jobs were worked on, as CSV and for a chart that shortens pauses."""

import csv
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from io import StringIO
from itertools import pairwise
from math import ceil, log
from typing import Final, NamedTuple

from waybook.app.request.access import load_plan
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Rows
from waybook.core.ids import id_or_nil
from waybook.json_values import Json, rfc3339
from waybook.plan.model import StepStatus
from waybook.store.plans import details
from waybook.store.plans.details import StepStatusChange
from waybook.store.plans.load import PlanRequest

#: Maximum length of a pause in the chart, as a share of the total working time.
_MAX_IDLE_SHARE = 0.1
#: Step in which an axis with room grows.
_GROWTH = 1.25


class Span(NamedTuple):
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
            failed = move.status is StepStatus.FAILED
            status = StepStatus.FAILED if failed else StepStatus.COMPLETED
            if begun.status is StepStatus.AWAITING_INPUT:
                status = StepStatus.AWAITING_INPUT
            spans[move.step_id].append(Span(begun.at, move.at, status))
        if move.status in {StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT}:
            since[move.step_id] = move
    for step_id, begun in since.items():
        spans[step_id].append(Span(begun.at, max(now, begun.at), begun.status))
    return spans


class Axis:
    """Time axis on which long pauses between work are shortened.

    An axis with room is longer than the work so far, so that it changes its scale only now and
    then while work goes on.
    """

    def __init__(self, spans: Sequence[Span], *, has_room: bool = False) -> None:
        worked = [span for span in spans if span.status is not StepStatus.AWAITING_INPUT]
        self._busy: list[tuple[datetime, datetime]] = []
        for span in sorted(worked, key=lambda span: span.start):
            if self._busy and span.start <= self._busy[-1][1]:
                self._busy[-1] = (self._busy[-1][0], max(self._busy[-1][1], span.end))
            else:
                self._busy.append((span.start, span.end))
        self._starts = [start for start, _ in self._busy]
        self.worked = sum((end - start for start, end in self._busy), timedelta())
        self._pause = self.worked * _MAX_IDLE_SHARE
        self._places, place = list[timedelta](), timedelta()
        for number, (start, end) in enumerate(self._busy):
            if number:
                place += min(start - self._busy[number - 1][1], self._pause)
            self._places.append(place)
            place += end - start
        self._length = max((self._place(span.end) for span in spans), default=timedelta())
        if has_room and (seconds := self._length.total_seconds()) > 1:
            self._length = timedelta(seconds=_GROWTH ** ceil(log(seconds, _GROWTH)))

    def column(self, at: datetime, width: int) -> int:
        if not self._length:
            return 0
        return min(width - 1, int(width * (self._place(at) / self._length)))

    def starts(self, width: int) -> list[tuple[datetime, int]]:
        """Return the times at which work began after a pause, with their columns."""
        return [(start, self.column(start, width)) for start in self._starts]

    def cuts(self, width: int) -> list[int]:
        ends = [end for (_, end), (start, _) in pairwise(self._busy) if start - end > self._pause]
        return [self.column(end + self._pause / 2, width) for end in ends]

    def _place(self, at: datetime) -> timedelta:
        number = bisect_right(self._starts, at) - 1
        if number < 0:
            return timedelta()
        start, end = self._busy[number]
        after = min(max(at - end, timedelta()), self._pause)
        return self._places[number] + min(at, end) - start + after


def time_spent(spans: Iterable[Span], *, waiting: bool = False) -> timedelta:
    """Return the total working time or, if `waiting` is set, the total wait for a person."""
    lengths = (s.length for s in spans if (s.status is StepStatus.AWAITING_INPUT) is waiting)
    return sum(lengths, timedelta())


#: Characters with which a formula begins in a spreadsheet.
FORMULA_PREFIXES: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_PLAN_COLUMNS: Final = ("step", "title", "type", "status", "start", "end", "seconds", "user")
_RUN_COLUMNS: Final = (
    *("stage", "step", "job_type", "model", "status", "attempt", "start", "end", "seconds"),
    *("user", "error"),
)


def escape_cell(text: str) -> str:
    """Escape a CSV cell so that no spreadsheet interprets it as a formula.

    >>> escape_cell("=1+1"), escape_cell("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    out = StringIO()
    csv.writer(out).writerows([escape_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


async def plan_timeline(ctx: RequestContext, plan_id: str) -> str:
    """Return a CSV with the times when each step was worked on or waited for a person."""
    plan_id = id_or_nil(plan_id)
    statement = details.status_changes_statement(plan_id, None)
    loaded, (rows,) = await load_plan(ctx, PlanRequest(plan_id=plan_id), statement)
    moves = details.read_status_changes(rows)
    steps = {str(step.id): step for step in loaded.plan.steps}
    users = {(move.step_id, move.at): move.session or move.actor for move in moves}
    spans = [
        (span, steps[step_id])
        for step_id, of_step in spans_of(moves, loaded.now).items()
        if step_id in steps
        for span in of_step
    ]
    lines = [
        (
            *(str(step.order), step.title or "", str(step.type), str(span.status)),
            *_interval(span.start, span.end),
            users.get((step.id, span.start), ""),
        )
        for span, step in sorted(spans, key=lambda item: (item[0].start, item[1].order))
    ]
    return csv_text([_PLAN_COLUMNS, *lines])


def run_timeline(rows: Rows, now: datetime) -> str:
    """Return a CSV with the times when each job was worked on."""
    lines = []
    for job in rows.get("job", {}).values():
        start, end = _read_time(job["started_at"]), _read_time(job["completed_at"])
        named = ("stage_slug", "step_key", "job_type", "model", "status", "attempt")
        cells = tuple(str(job[name]) for name in named)
        ended = end or (now if start and job["status"] == "processing" else None)
        user = str(job["held_session"] or job["held_by"] or "")
        lines.append((*cells, *_interval(start, ended), user, str(job["error"] or "")))
    start_column = _RUN_COLUMNS.index("start")
    lines.sort(key=lambda line: (not line[start_column], line[start_column], line[:4]))
    return csv_text([_RUN_COLUMNS, *lines])


def _interval(start: datetime | None, end: datetime | None) -> tuple[str, str, str]:
    if start is None:
        return "", "", ""
    if end is None:
        return rfc3339(start), "", ""
    return rfc3339(start), rfc3339(end), f"{(end - start).total_seconds():.3f}"


def _read_time(value: Json) -> datetime | None:
    return datetime.fromisoformat(str(value)) if value else None
