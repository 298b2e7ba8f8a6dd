"""Inbox of an org: open reviews, and stages of runs that wait for feedback or have failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from waybook.app.queries.overview_entries import RunFailure
from waybook.app.queries.plans.plan_list import EXCERPT_LENGTH
from waybook.app.queries.runs.run_list import RunFilter, RunSummary, list_runs, read_run_summaries
from waybook.app.request.request_context import RequestContext, id_or_nil, not_found
from waybook.store.plans import lists
from waybook.store.plans.lists import PendingCounts, ReviewRecord
from waybook.store.runs import load
from waybook.store.runs.rows import RunSummaryRow

__all__ = ["PendingCounts", "ReviewRecord"]

MAX_PENDING = 250


async def list_reviews(
    ctx: RequestContext, plan_id: str | None = None, *, limit: int = 100
) -> list[ReviewRecord]:
    """Return the open reviews, longest waiting first."""
    statement = lists.open_reviews_statement(
        plan_id=id_or_nil(plan_id) if plan_id else None, most=limit
    )
    (rows,) = await ctx.read(statement)
    return lists.read_review_records(rows)


async def read_review(ctx: RequestContext, review_id: str) -> ReviewRecord:
    (rows,) = await ctx.read(lists.SQL["one_review"](review_id=id_or_nil(review_id)))
    if not rows:
        raise not_found("review")
    (review,) = lists.read_review_records(rows)
    return review


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFeedback:
    kind: ClassVar[str] = "run"
    is_overdue: ClassVar[bool] = False

    run: RunSummary
    stage_slug: str
    since: datetime

    @property
    def stage_name(self) -> str:
        stage = self.run.compiled_dag.dag.stage(self.stage_slug)
        return stage.name if stage else self.stage_slug


async def runs_awaiting_feedback(ctx: RequestContext, *, most: int = 100) -> list[PendingFeedback]:
    (rows,) = await ctx.read(load.awaiting_statement(most))
    return await _awaiting(ctx, rows)


async def read_pending_stage(ctx: RequestContext, run_id: str, slug: str) -> PendingFeedback:
    runs = (await list_runs(ctx, RunFilter(text=id_or_nil(run_id)), limit=1)).runs
    if not runs or runs[0].compiled_dag.dag.stage(slug) is None:
        raise not_found("run" if not runs else "stage")
    return PendingFeedback(run=runs[0], stage_slug=slug, since=runs[0].updated_at)


async def _awaiting(ctx: RequestContext, rows: Sequence[RunSummaryRow]) -> list[PendingFeedback]:
    runs = await read_run_summaries(ctx, rows)
    return [
        PendingFeedback(run=run, stage_slug=run.awaiting.slug, since=row.awaiting_since)
        for run, row in zip(runs, rows, strict=True)
        if run.awaiting is not None and row.awaiting_since is not None
    ]


@dataclass(frozen=True, slots=True)
class FailedStage:
    """A stage of an open run with permanently failed jobs, which a person may retry."""

    kind: ClassVar[str] = "failure"
    is_overdue: ClassVar[bool] = False

    run_id: str
    run_name: str
    since: datetime
    failure: RunFailure


async def list_failed_stages(ctx: RequestContext, *, most: int) -> list[FailedStage]:
    """Return the failed stages of open runs, longest waiting first."""
    statement = load.failed_stages_statement(shown=most, most=MAX_PENDING, wide=EXCERPT_LENGTH)
    (rows,) = await ctx.read(statement)
    return [FailedStage(row.run_id, row.run_name, row.at, RunFailure(*row.failure)) for row in rows]


async def count_pending(ctx: RequestContext) -> PendingCounts:
    counts: PendingCounts
    ((counts,),) = await ctx.read(lists.SQL["waiting"](most=MAX_PENDING))
    return counts
