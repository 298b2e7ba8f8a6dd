"""Timeline of a run: jobs as bars over time, in rows by model."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from waybook.app.queries.runs.run import RunDetail
from waybook.core.durations import format_duration
from waybook.transport.http.dashboard.runs.run_stage_view import CELL_STATUSES

WIDTH: Final = 1000
ROW_HEIGHT: Final = 16
BAR_HEIGHT: Final = 10
#: Maximum number of rows for a model. Further jobs share the last row.
MAX_ROWS: Final = 12
MIN_BAR_WIDTH: Final = 3
TICKS: Final = 4

_STATUSES: Final = dict(CELL_STATUSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    x: int
    y: int
    width: int
    status: str
    url: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    model: str
    height: int
    bars: tuple[Bar, ...]

    def path(self, status: str) -> str:
        middle = BAR_HEIGHT // 2
        return "".join(
            f"M{bar.x} {bar.y + middle}h{bar.width}" for bar in self.bars if bar.status == status
        )

    @property
    def statuses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(bar.status for bar in self.bars))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    x: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeline:
    rows: tuple[ModelRow, ...]
    ticks: tuple[Tick, ...]
    start: datetime
    length: timedelta
    shown: int
    total: int


def run_timeline(detail: RunDetail) -> RunTimeline | None:
    times = detail.job_times
    if not times:
        return None
    now = detail.run.completed_at or detail.run.canceled_at or detail.now
    start = times[0].started_at
    end = max(job.completed_at or now for job in times)
    scale = _Scale(start, max((end - start).total_seconds(), 1.0))
    models = sorted({job.model for job in times})
    return RunTimeline(
        rows=tuple(_row(detail, model, scale, now) for model in models),
        ticks=tuple(scale.ticks()),
        start=start,
        length=end - start,
        shown=len(times),
        total=times[0].total,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    seconds: float

    def x(self, at: datetime) -> int:
        share = (at - self.start).total_seconds() / self.seconds
        return round(min(max(share, 0.0), 1.0) * WIDTH)

    def ticks(self) -> Iterator[Tick]:
        for number in range(TICKS + 1):
            passed = timedelta(seconds=self.seconds * number / TICKS)
            yield Tick(x=WIDTH * number // TICKS, label=format_duration(passed))


def _row(detail: RunDetail, model: str, scale: _Scale, now: datetime) -> ModelRow:
    ends: list[int] = []
    bars = []
    for job in (job for job in detail.job_times if job.model == model):
        end = job.completed_at or now
        x = scale.x(job.started_at)
        width = max(MIN_BAR_WIDTH, scale.x(end) - x)
        x = min(x, WIDTH - width)
        level = next((n for n, right in enumerate(ends) if right <= x), len(ends))
        if level == len(ends) and len(ends) < MAX_ROWS:
            ends.append(0)
        level = min(level, MAX_ROWS - 1)
        ends[level] = max(ends[level], x + width + 1)
        bars.append(
            Bar(
                x=x,
                y=level * ROW_HEIGHT,
                width=width,
                status=_STATUSES.get(job.status, "pending"),
                url=f"/runs/{detail.run.id}/jobs/{job.id}",
                title=f"{job.step_key}, {model}: {format_duration(end - job.started_at)}",
            )
        )
    return ModelRow(model=model, height=len(ends) * ROW_HEIGHT, bars=tuple(bars))
