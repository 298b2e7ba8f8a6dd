"""Plans for a person: all of them, or the one meant by a few letters."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.plan.states import DONE_STEP, PlanStatus, StepStatus
from waybook.store import plans
from waybook.usecases.call import RequestContext
from waybook.usecases.meant import MAX_CANDIDATES, resolve_one


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """A plan in a list: what it is called, how it stands, when something last happened."""

    id: str
    name: str
    status: PlanStatus
    question: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    #: The database's time when we looked.
    now: datetime
    counts: dict[StepStatus, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        return sum(count for status, count in self.counts.items() if status in DONE_STEP)


async def find_plans(
    ctx: RequestContext, text: str = "", *, open_only: bool = True, limit: int = 100
) -> list[PlanSummary]:
    """Plans whose id begins with the text or whose name holds it, newest activity first."""
    statement = plans.SQL["find_plans"](text=text, open_only=open_only, most=limit)
    (rows,) = await ctx.read(statement)
    return [_found(row) for row in rows]


async def resolve_plan(ctx: RequestContext, text: str | None) -> PlanSummary:
    """The one plan that is meant; if nothing is said, the only open one.

    A plan is meant by its id, by the beginning of it, or by its name or a part of it.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    found = await find_plans(ctx, text or "", open_only=text is None, limit=MAX_CANDIDATES)
    return resolve_one(found, text, what="plan", tool="list_active_plans")


def _found(row: tuple[Any, ...]) -> PlanSummary:
    plan_id, name, status, question, created_at, created_by, updated_at, now, counts = row
    return PlanSummary(
        id=plan_id,
        name=name,
        status=PlanStatus(status),
        question=question,
        created_at=created_at,
        created_by=created_by,
        updated_at=updated_at,
        now=now,
        counts={StepStatus(status): count for status, count in (counts or {}).items()},
    )
