"""What needs a person: reviews to decide, and stages of runs to say something of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from waybook.store import plans, runs
from waybook.usecases.call import Call, known, not_found
from waybook.usecases.find_runs import FoundRun, find_runs, found_runs

#: How much of a summary makes a line.
WIDE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewLine:
    """A review nobody has decided yet, in a line."""

    kind: ClassVar[str] = "review"

    id: str
    plan_id: str
    plan_name: str
    step_order: int
    summary: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingRun:
    """A run where nothing goes on before somebody has said something of a stage."""

    kind: ClassVar[str] = "run"

    run: FoundRun
    stage_slug: str
    since: datetime

    @property
    def stage_name(self) -> str:
        stage = self.run.chart.dag.stage(self.stage_slug)
        return stage.name if stage else self.stage_slug


async def needs_you(call: Call, *, most: int) -> list[ReviewLine | AwaitingRun]:
    """What waits for a person, longest waiting first, a line of each."""
    asked = plans.SQL["review_lines"](most=most, wide=WIDE), runs.awaiting_statement(most)
    lines, rows = await call.read(*asked)
    reviews = [ReviewLine(**dict(zip(ReviewLine.__slots__, row, strict=True))) for row in lines]
    every: list[ReviewLine | AwaitingRun] = [*reviews, *await _awaiting(call, rows)]
    return sorted(every, key=lambda one: one.since)[:most]


async def awaiting_runs(call: Call, *, most: int = 100) -> list[AwaitingRun]:
    """The runs that wait for a person, longest waiting first."""
    (rows,) = await call.read(runs.awaiting_statement(most))
    return await _awaiting(call, rows)


async def read_stage(call: Call, run_id: str, slug: str) -> AwaitingRun:
    """A stage of a run as somebody is asked of it, whether or not it still waits.

    Raises:
        NotFound: there is no such run here, or no such stage of it.
    """
    found = await find_runs(call, known(run_id), open_only=False, limit=1)
    if not found or found[0].chart.dag.stage(slug) is None:
        raise not_found("run" if not found else "stage")
    return AwaitingRun(run=found[0], stage_slug=slug, since=found[0].updated_at)


async def _awaiting(call: Call, rows: Sequence[Sequence[Any]]) -> list[AwaitingRun]:
    found = await found_runs(call, [row[:-1] for row in rows])
    return [
        AwaitingRun(run=run, stage_slug=run.awaiting.slug, since=row[-1])
        for run, row in zip(found, rows, strict=True)
        if run.awaiting is not None
    ]
