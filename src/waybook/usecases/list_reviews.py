"""What waits for a person, in all plans."""

from dataclasses import dataclass
from datetime import datetime

from waybook.record.moment import Json
from waybook.store import plans
from waybook.usecases.call import Call, known


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
    statement = plans.SQL["open_reviews"](plan_id=known(plan_id) if plan_id else None, most=limit)
    (rows,) = await call.read(statement)
    return [OpenReview(**dict(zip(OpenReview.__slots__, row, strict=True))) for row in rows]
