"""What waits for a person, in all plans."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.plan.model import DecisionKind
from waybook.plan.states import PlanStatus
from waybook.record.moment import Json
from waybook.store import plans
from waybook.usecases.call import Call, known, not_found


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
    call: Call, plan_id: str | None = None, *, limit: int = 100
) -> list[OpenReview]:
    """The open reviews, longest waiting first."""
    statement = plans.open_reviews_statement(
        plan_id=known(plan_id) if plan_id else None, most=limit
    )
    (rows,) = await call.read(statement)
    return read_open_reviews(rows)


def read_open_reviews(rows: Iterable[tuple[Any, ...]]) -> list[OpenReview]:
    """The reviews that `open_reviews` found."""
    return [OpenReview(**dict(zip(OpenReview.__slots__, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenReview:
    """A review whoever looks at it may find decided, and by whom."""

    review: OpenReview
    decision: DecisionKind | None
    feedback: str | None
    decided_by: str | None
    decided_at: datetime | None
    plan_status: PlanStatus


async def read_review(call: Call, review_id: str) -> SeenReview:
    """One review, open or decided.

    Raises:
        NotFound: there is none with this id here.
    """
    (rows,) = await call.read(plans.SQL["one_review"](review_id=known(review_id)))
    if not rows:
        raise not_found("review")
    *asked, decision, feedback, by, at, status = rows[0]
    return SeenReview(
        review=OpenReview(**dict(zip(OpenReview.__slots__, asked, strict=True))),
        decision=DecisionKind(decision) if decision else None,
        feedback=feedback,
        decided_by=by,
        decided_at=at,
        plan_status=PlanStatus(status),
    )
