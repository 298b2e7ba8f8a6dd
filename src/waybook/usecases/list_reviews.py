"""What waits for a person, in all plans."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.plan.model import DecisionKind
from waybook.plan.states import PlanStatus
from waybook.record.moment import Json
from waybook.store import plans
from waybook.usecases.call import RequestContext, id_or_nil, not_found


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReview:
    """A review nobody has decided yet, with what a person needs to decide it."""

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
    #: The database's time when we looked.
    now: datetime


async def list_reviews(
    ctx: RequestContext, plan_id: str | None = None, *, limit: int = 100
) -> list[OpenReview]:
    """The open reviews, longest waiting first."""
    statement = plans.open_reviews_statement(
        plan_id=id_or_nil(plan_id) if plan_id else None, most=limit
    )
    (rows,) = await ctx.read(statement)
    return read_open_reviews(rows)


def read_open_reviews(rows: Iterable[tuple[Any, ...]]) -> list[OpenReview]:
    """The reviews that `open_reviews` found."""
    return [OpenReview(**dict(zip(OpenReview.__slots__, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRecord:
    """A review whoever looks at it may find decided, and by whom."""

    review: OpenReview
    decision: DecisionKind | None
    feedback: str | None
    decided_by: str | None
    decided_at: datetime | None
    plan_status: PlanStatus


async def read_review(ctx: RequestContext, review_id: str) -> ReviewRecord:
    """One review, open or decided.

    Raises:
        NotFound: there is none with this id here.
    """
    (rows,) = await ctx.read(plans.SQL["one_review"](review_id=id_or_nil(review_id)))
    if not rows:
        raise not_found("review")
    *asked, decision, feedback, by, at, status = rows[0]
    return ReviewRecord(
        review=OpenReview(**dict(zip(OpenReview.__slots__, asked, strict=True))),
        decision=DecisionKind(decision) if decision else None,
        feedback=feedback,
        decided_by=by,
        decided_at=at,
        plan_status=PlanStatus(status),
    )
