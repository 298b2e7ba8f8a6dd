"""History entries as sentences, and timelines of steps and jobs drawn to scale."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from waybook.app.queries.audit import event_label
from waybook.app.queries.plans.plan import HistoryEntry, StepStatusChange
from waybook.app.queries.runs.run import RunDetail
from waybook.app.queries.timeline import Axis, spans_of, time_spent, time_waited
from waybook.core.durations import format_duration

WIDTH: Final = 1000
_MIN_SEGMENT_WIDTH: Final = 4
_STATUS_WORDS: Final = {
    "awaiting_input": "waited for a person",
    "failed": "worked on, without a result",
}
_ROW_HEIGHT: Final = 16
_BAR_HEIGHT: Final = 10
#: Maximum number of rows for a model. Further jobs share the last row.
MAX_ROWS: Final = 12
MIN_BAR_WIDTH: Final = 3
_TICKS: Final = 4
#: Status that a cell or bar shows for its jobs. The first that some job has is shown.
CELL_STATUSES: Final = MappingProxyType(
    {
        "failed": "failed",
        "retry_loop_failed": "failed",
        "processing": "in_progress",
        "retrying": "pending",
        "pending": "pending",
        "waiting": "pending",
        "completed": "completed",
        "superseded": "skipped",
    }
)


def history_lines(entries: Iterable[HistoryEntry]) -> list[tuple[HistoryEntry, str]]:
    lines = []
    for entry in entries:
        what = event_label(entry.event, entry.action)
        if entry.decision is not None:
            what = f"decided a review: {entry.decision}"
        elif entry.step_order is not None:
            what = what.replace("a step", f"step {entry.step_order}")
        lines.append((entry, what))
    return lines


@dataclass(frozen=True, slots=True)
class Segment:
    x: int
    width: int
    status: str
    title: str
    #: Row and link of a job. A step has one row and no links.
    y: int = 0
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepTimeline:
    segments: tuple[Segment, ...] = ()
    worked: timedelta | None = None
    waited: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    lines: dict[str, _StepTimeline]
    worked: timedelta
    cuts: tuple[int, ...]

    def line(self, step_id: str) -> _StepTimeline:
        return self.lines.get(step_id, _EMPTY)


_EMPTY: Final = _StepTimeline()


def build_timeline(changes: Iterable[StepStatusChange], now: datetime) -> Timeline:
    spans_by_step = spans_of(changes, now)
    axis = Axis([span for spans in spans_by_step.values() for span in spans])
    lines = {}
    for step_id, spans in spans_by_step.items():
        segments = []
        for span in spans:
            left, right = axis.column(span.start, WIDTH), axis.column(span.end, WIDTH)
            width = max(right - left, _MIN_SEGMENT_WIDTH)
            word = _STATUS_WORDS.get(span.status, "worked on")
            title = f"{word} {format_duration(span.length)}"
            segments.append(Segment(min(left, WIDTH - width), width, str(span.status), title))
        lines[step_id] = _StepTimeline(
            segments=tuple(segments), worked=time_spent(spans), waited=time_waited(spans) or None
        )
    return Timeline(lines=lines, worked=axis.worked, cuts=tuple(dict.fromkeys(axis.cuts(WIDTH))))


def run_timeline(detail: RunDetail) -> dict[str, Any] | None:
    """Return the jobs of each model as bars over time."""
    times = detail.job_times
    if not times:
        return None
    now = detail.run.completed_at or detail.run.canceled_at or detail.now
    start = times[0].started_at
    length = max(job.completed_at or now for job in times) - start
    seconds = max(length.total_seconds(), 1.0)
    models = sorted({job.model for job in times})
    return {
        "rows": [_model_row(detail, model, seconds, now) for model in models],
        "ticks": [
            format_duration(timedelta(seconds=seconds * number / _TICKS))
            for number in range(_TICKS + 1)
        ],
        "start": start,
        "length": length,
        "shown": len(times),
        "total": times[0].total,
    }


def _model_row(detail: RunDetail, model: str, seconds: float, now: datetime) -> dict[str, Any]:
    start, ends, bars = detail.job_times[0].started_at, list[int](), []
    paths: dict[str, str] = {}

    def column(at: datetime) -> int:
        share = (at - start).total_seconds() / seconds
        return round(min(max(share, 0.0), 1.0) * WIDTH)

    for job in (job for job in detail.job_times if job.model == model):
        end = job.completed_at or now
        x = column(job.started_at)
        width = max(MIN_BAR_WIDTH, column(end) - x)
        x = min(x, WIDTH - width)
        level = next((n for n, right in enumerate(ends) if right <= x), len(ends))
        if level == len(ends) and len(ends) < MAX_ROWS:
            ends.append(0)
        level = min(level, MAX_ROWS - 1)
        ends[level] = max(ends[level], x + width + 1)
        status = CELL_STATUSES.get(job.status, "pending")
        title = f"{job.step_key}, {model}: {format_duration(end - job.started_at)}"
        url = f"/runs/{detail.run.id}/jobs/{job.id}"
        y = level * _ROW_HEIGHT
        bars.append(Segment(x, width, status, title, y, url))
        # The overview draws all bars of a status with one path.
        paths[status] = f"{paths.get(status, '')}M{x} {y + _BAR_HEIGHT // 2}h{width}"
    return {"model": model, "height": len(ends) * _ROW_HEIGHT, "bars": bars, "paths": paths}
