"""Queries for the inbox: waiting reviews and stages, their documents, and outcomes of reviews."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final, NamedTuple

from waybook.app.queries.comments import run_assignees
from waybook.app.queries.overview import RunFailure
from waybook.app.queries.work_list import (
    EXCERPT_LENGTH,
    RunFilter,
    RunSummary,
    list_runs,
    read_run_summaries,
)
from waybook.app.request.caller import ReadableReview, review_url
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, not_found
from waybook.core.decision_context import decider_refusal
from waybook.core.ids import id_or_nil
from waybook.json_values import Body, fields_of, non_empty
from waybook.plan.model import DecisionKind, StepStatus
from waybook.store.accounts import accounts
from waybook.store.driver.queries import Ids, Row
from waybook.store.plans import details, lists
from waybook.store.plans.details import MAX_RESULT_LENGTH
from waybook.store.plans.lists import PendingCounts, ReviewRecord
from waybook.store.runs import load
from waybook.store.runs.work import stage_documents_statement

__all__ = [
    "MAX_RESULT_LENGTH",
    "PendingCounts",
    "ReviewRecord",
    "Row",
]

_MAX_PENDING = 250


async def list_reviews(
    ctx: RequestContext,
    plan_id: str | None = None,
    *,
    limit: int = 100,
    assignee: str | None = None,
) -> list[ReviewRecord]:
    """Return the open reviews, longest waiting first."""
    statement = lists.SQL["open_reviews"](
        plan_id=id_or_nil(plan_id) if plan_id else None, most=limit, assignee=assignee
    )
    (rows,) = await ctx.read(statement)
    return lists.read_review_records(rows)


async def list_decided_reviews(ctx: RequestContext, *, limit: int) -> list[ReviewRecord]:
    """Return decided reviews, those requested last first."""
    statement = lists.SQL["decided_reviews"](most=limit, walked=_MAX_PENDING)
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
    assignee: str | None = None

    @property
    def stage_name(self) -> str:
        stage = self.run.compiled_dag.dag.stage(self.stage_slug)
        return stage.name if stage else self.stage_slug


async def runs_awaiting_feedback(
    ctx: RequestContext, *, most: int = 100, assignee: str | None = None
) -> list[PendingFeedback]:
    """Return the runs that wait for feedback, of all or only those assigned to a person."""
    (rows,) = await ctx.read(
        load.SQL["awaiting_runs"](most=most if assignee is None else _MAX_PENDING)
    )
    assigned = await run_assignees(ctx, [row.id for row in rows]) if rows else {}
    pending = [
        PendingFeedback(
            run=run,
            stage_slug=run.awaiting.slug,
            since=run.awaiting_since,
            assignee=assigned.get(run.id),
        )
        for run in await read_run_summaries(ctx, rows)
        if run.awaiting is not None and run.awaiting_since is not None
    ]
    return [stage for stage in pending if assignee in {None, stage.assignee}][:most]


async def read_pending_stage(ctx: RequestContext, run_id: str, slug: str) -> PendingFeedback:
    runs, _ = await list_runs(ctx, RunFilter(text=id_or_nil(run_id)), limit=1)
    if not runs or runs[0].compiled_dag.dag.stage(slug) is None:
        raise not_found("run" if not runs else "stage")
    return PendingFeedback(run=runs[0], stage_slug=slug, since=runs[0].updated_at)


@dataclass(frozen=True, slots=True)
class FailedStage:
    """A stage of an open run with permanently failed jobs. A person may retry these jobs."""

    kind: ClassVar[str] = "failure"
    is_overdue: ClassVar[bool] = False

    run_id: str
    run_name: str
    since: datetime
    failure: RunFailure


async def list_failed_stages(ctx: RequestContext, *, most: int) -> list[FailedStage]:
    """Return the failed stages of open runs, longest waiting first."""
    statement = load.SQL["failed_stages_of_runs"](
        shown=most, most=_MAX_PENDING, wide=EXCERPT_LENGTH
    )
    (rows,) = await ctx.read(statement)
    return [FailedStage(row.run_id, row.run_name, row.at, RunFailure(*row.failure)) for row in rows]


#: Query for the `PendingCounts`.
PENDING_COUNTS: Final = lists.SQL["waiting"](most=_MAX_PENDING)


async def count_pending(ctx: RequestContext) -> PendingCounts:
    counts: PendingCounts
    ((counts,),) = await ctx.read(PENDING_COUNTS)
    return counts


_OUTPUT_KIND = "output"


class ReviewEvidence(NamedTuple):
    previous: Row | None = None
    research: tuple[Row, ...] = ()
    outputs: tuple[Row, ...] = ()
    decide_within: timedelta | None = None


async def read_evidence(
    ctx: RequestContext, review_ids: Iterable[str]
) -> Mapping[str, ReviewEvidence]:
    ids = [*review_ids]
    if not ids:
        return {}
    earlier, artifacts = await ctx.read(
        details.SQL["previous_reviews"](ids=Ids(ids), longest=MAX_RESULT_LENGTH),
        details.SQL["review_artifacts"](ids=Ids(ids), most=details.MAX_ARTIFACTS),
    )
    previous = {row.review_id: row for row in earlier}
    return {
        review_id: ReviewEvidence(
            previous=previous.get(review_id),
            research=tuple(row for row in mine if row.kind != _OUTPUT_KIND),
            outputs=tuple(row for row in mine if row.kind == _OUTPUT_KIND),
            decide_within=ctx.services.review_reminder,
        )
        for review_id in ids
        for mine in [[row for row in artifacts if row.review_id == review_id]]
    }


async def read_stage_documents(
    ctx: RequestContext, stages: Sequence[PendingFeedback]
) -> list[Sequence[Row]]:
    if not stages:
        return []
    statements = (stage_documents_statement(item.run.id, item.stage_slug) for item in stages)
    return [*await ctx.read(*statements)]


_DECIDED_STATUS: Final = {
    DecisionKind.APPROVE: StepStatus.COMPLETED,
    DecisionKind.MODIFY: StepStatus.IN_PROGRESS,
    DecisionKind.SKIP: StepStatus.SKIPPED,
    DecisionKind.REJECT: StepStatus.FAILED,
}
REASONS: Final = {
    DecisionKind.APPROVE: "Claim the next step.",
    DecisionKind.MODIFY: "Claim the step again; its instructions have the feedback.",
    DecisionKind.SKIP: "Claim the next step.",
    DecisionKind.REJECT: "See how the plan ended.",
}


async def read_review_outcome(ctx: RequestContext, review_id: str) -> ReadableReview:
    statement = lists.SQL["review_outcome"](review_id=id_or_nil(review_id))
    rows, policy_rows = await ctx.read(statement, accounts.SQL["review_policy"]())
    if not rows:
        raise not_found("review")
    row = rows[0]
    policy = accounts.read_policy(policy_rows)
    return ReadableReview(
        summary=row.summary,
        questions=tuple(row.questions),
        requested_at=row.requested_at,
        ended_at=row.decided_at or row.plan_ended_at,
        is_decided=row.decision is not None,
        may_decide=decider_refusal(ctx.caller.actor(), policy, row.requested_as) is None,
        reply={**review_reply(row, ctx.services.base_url)},
    )


def review_reply(review: Row, base_url: str) -> Body:
    """Return the reply that describes a review. After the decision, the reply never changes."""
    named: Body = {
        "planId": review.plan_id,
        "reviewId": review.id,
        "stepId": review.step_id,
        "reviewUrl": review_url(review.plan_id, base_url),
    }
    if review.decision is None:
        return named
    decision = DecisionKind(review.decision)
    return {
        **named,
        "stepStatus": str(_DECIDED_STATUS[decision]),
        "decision": str(decision),
        **non_empty(**fields_of(review, "feedback decided_by decided_at")),
        "next": next_call("get_next_step", REASONS[decision], planId=review.plan_id),
    }
