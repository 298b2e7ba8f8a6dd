"""Plans for a person: all of them, or the one meant by a few letters."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.plan.states import DONE_STEP, PlanStatus, StepStatus
from waybook.store import plans
from waybook.usecases.call import Call
from waybook.usecases.meant import ENOUGH, the_one_meant


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlan:
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
    call: Call, text: str = "", *, open_only: bool = True, limit: int = 100
) -> list[FoundPlan]:
    """Plans whose id begins with the text or whose name holds it, newest activity first."""
    statement = plans.SQL["find_plans"](text=text, open_only=open_only, most=limit)
    (rows,) = await call.read(statement)
    return [_found(row) for row in rows]


async def meant_plan(call: Call, text: str | None) -> FoundPlan:
    """The one plan that is meant; if nothing is said, the only open one.

    A plan is meant by its id, by the beginning of it, or by its name or a part of it.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    found = await find_plans(call, text or "", open_only=text is None, limit=ENOUGH)
    return the_one_meant(found, text, what="plan", tool="list_active_plans")


def _found(row: tuple[Any, ...]) -> FoundPlan:
    plan_id, name, status, question, created_at, created_by, updated_at, now, counts = row
    return FoundPlan(
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
