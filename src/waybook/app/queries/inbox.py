"""Inbox: open reviews and stages awaiting feedback, in all plans and runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from waybook.app.queries.runs import RunFilter, RunSummary, list_runs, read_run_summaries
from waybook.app.request.lookups import id_or_nil, not_found
from waybook.app.request.request_context import RequestContext
from waybook.json_values import Json
from waybook.plan.model import DecisionKind
from waybook.plan.states import PlanStatus
from waybook.store.plans import load
from waybook.store.runs import load as load_store
from waybook.store.runs.rows import RunSummaryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReview:
    """Undecided review, with everything a reviewer needs to decide it."""

    id: str
    plan_id: str
    plan_name: str
    step_id: str
    step_order: int
    title: str | None
    attempt: int
    instructions: str
    summary: str
    questions: list[str]
    result_summary: Json
    requested_at: datetime
    requested_by: str
    #: Database time of the query.
    now: datetime


async def list_reviews(
    ctx: RequestContext, plan_id: str | None = None, *, limit: int = 100
) -> list[OpenReview]:
    """Return the open reviews, longest waiting first."""
    statement = load.open_reviews_statement(
        plan_id=id_or_nil(plan_id) if plan_id else None, most=limit
    )
    (rows,) = await ctx.read(statement)
    return read_open_reviews(rows)


def read_open_reviews(rows: Iterable[tuple[Any, ...]]) -> list[OpenReview]:
    """Return the reviews in the rows of `open_reviews`."""
    return [OpenReview(**dict(zip(OpenReview.__slots__, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRecord:
    """Review, open or decided, with its decision and reviewer."""

    review: OpenReview
    decision: DecisionKind | None
    feedback: str | None
    decided_by: str | None
    decided_at: datetime | None
    plan_status: PlanStatus


async def read_review(ctx: RequestContext, review_id: str) -> ReviewRecord:
    """Return one review, open or decided.

    Raises:
        NotFound: there is no review with this id here.
    """
    (rows,) = await ctx.read(load.SQL["one_review"](review_id=id_or_nil(review_id)))
    if not rows:
        raise not_found("review")
    *review_fields, decision, feedback, by, at, status = rows[0]
    return ReviewRecord(
        review=OpenReview(**dict(zip(OpenReview.__slots__, review_fields, strict=True))),
        decision=DecisionKind(decision) if decision else None,
        feedback=feedback,
        decided_by=by,
        decided_at=at,
        plan_status=PlanStatus(status),
    )


#: Length of a summary that fits one line.
SUMMARY_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReview:
    """Undecided review in one line."""

    kind: ClassVar[str] = "review"

    id: str
    plan_id: str
    plan_name: str
    step_order: int
    summary: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFeedback:
    """Run that is blocked until a person gives feedback on a stage."""

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
    """Return reviews and stages that wait for a person, longest waiting first, one line each."""
    statements = (
        load.SQL["review_lines"](most=most, wide=SUMMARY_LENGTH),
        load_store.awaiting_statement(most),
    )
    lines, rows = await ctx.read(*statements)
    reviews = [
        PendingReview(**dict(zip(PendingReview.__slots__, row, strict=True))) for row in lines
    ]
    every: list[PendingReview | PendingFeedback] = [*reviews, *await _awaiting(ctx, rows)]
    return sorted(every, key=lambda action: action.since)[:most]


async def runs_awaiting_feedback(ctx: RequestContext, *, most: int = 100) -> list[PendingFeedback]:
    """Return the runs that wait for a person, longest waiting first."""
    (rows,) = await ctx.read(load_store.awaiting_statement(most))
    return await _awaiting(ctx, rows)


async def read_pending_stage(ctx: RequestContext, run_id: str, slug: str) -> PendingFeedback:
    """Return a stage of a run with its feedback request, whether or not it still waits.

    Raises:
        NotFound: there is no such run here, or it has no such stage.
    """
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


class PendingCounts(NamedTuple):
    reviews: int
    #: Runs that are blocked until a person gives feedback on a stage.
    runs: int
    #: Database time of the query.
    now: datetime

    @property
    def total(self) -> int:
        return self.reviews + self.runs


async def count_pending(ctx: RequestContext) -> PendingCounts:
    """Count the reviews and runs of the org that wait for a person."""
    ((row,),) = await ctx.read(load.SQL["waiting"]())
    return PendingCounts(*row)
