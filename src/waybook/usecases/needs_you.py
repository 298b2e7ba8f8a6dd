"""What needs a person: reviews to decide, and stages of runs to say something of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from waybook.store import plans, runs
from waybook.usecases.call import RequestContext, id_or_nil, not_found
from waybook.usecases.find_runs import RunSummary, find_runs, read_run_summaries

#: How much of a summary makes a line.
SUMMARY_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReview:
    """A review nobody has decided yet, in a line."""

    kind: ClassVar[str] = "review"

    id: str
    plan_id: str
    plan_name: str
    step_order: int
    summary: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFeedback:
    """A run where nothing goes on before somebody has said something of a stage."""

    kind: ClassVar[str] = "run"

    run: RunSummary
    stage_slug: str
    since: datetime

    @property
    def stage_name(self) -> str:
        stage = self.run.compiled_dag.dag.stage(self.stage_slug)
        return stage.name if stage else self.stage_slug


async def list_pending_actions(
    ctx: RequestContext, *, most: int
) -> list[PendingReview | PendingFeedback]:
    """What waits for a person, longest waiting first, a line of each."""
    asked = plans.SQL["review_lines"](most=most, wide=SUMMARY_LENGTH), runs.awaiting_statement(most)
    lines, rows = await ctx.read(*asked)
    reviews = [
        PendingReview(**dict(zip(PendingReview.__slots__, row, strict=True))) for row in lines
    ]
    every: list[PendingReview | PendingFeedback] = [*reviews, *await _awaiting(ctx, rows)]
    return sorted(every, key=lambda one: one.since)[:most]


async def runs_awaiting_feedback(ctx: RequestContext, *, most: int = 100) -> list[PendingFeedback]:
    """The runs that wait for a person, longest waiting first."""
    (rows,) = await ctx.read(runs.awaiting_statement(most))
    return await _awaiting(ctx, rows)


async def read_pending_stage(ctx: RequestContext, run_id: str, slug: str) -> PendingFeedback:
    """A stage of a run as somebody is asked of it, whether or not it still waits.

    Raises:
        NotFound: there is no such run here, or no such stage of it.
    """
    found = await find_runs(ctx, id_or_nil(run_id), open_only=False, limit=1)
    if not found or found[0].compiled_dag.dag.stage(slug) is None:
        raise not_found("run" if not found else "stage")
    return PendingFeedback(run=found[0], stage_slug=slug, since=found[0].updated_at)


async def _awaiting(ctx: RequestContext, rows: Sequence[Sequence[Any]]) -> list[PendingFeedback]:
    found = await read_run_summaries(ctx, [row[:-1] for row in rows])
    return [
        PendingFeedback(run=run, stage_slug=run.awaiting.slug, since=row[-1])
        for run, row in zip(found, rows, strict=True)
        if run.awaiting is not None
    ]
