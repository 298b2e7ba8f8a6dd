"""Plans to leaf through: a page at a time, in an order that stays while the plans move."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from waybook.errors import InvalidInput, NextCall
from waybook.plan.states import CLOSED_PLAN, DONE_STEP, PlanStatus, StepStatus
from waybook.store import plans
from waybook.store.ids import is_id
from waybook.store.sql import Statement
from waybook.usecases.call import RequestContext

PAGE_SIZE = 50
#: Plans that are over are counted up to this many.
MAX_COUNTED = 10_000
#: How much of a step's instructions stands for a title it does not have.
TITLE_EXCERPT_LENGTH = 120
MAX_TEXT_LENGTH = 200
#: Behind every id there will ever be.
LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class CurrentStep(NamedTuple):
    order: int
    #: Its title, or the beginning of its instructions.
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanListItem:
    """A plan in a list: how it stands, what is being done, when something last happened."""

    id: str
    name: str
    status: PlanStatus
    updated_at: datetime
    counts: dict[StepStatus, int]
    current: CurrentStep | None
    #: Since when nobody has heard of the step that stalls it.
    inactive_since: datetime | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        return sum(count for status, count in self.counts.items() if status in DONE_STEP)

    @property
    def failed(self) -> int:
        return self.counts.get(StepStatus.FAILED, 0)

    @property
    def open(self) -> bool:
        return self.status not in CLOSED_PLAN


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFilter:
    """Which plans: the open ones, unless a state or all are asked for."""

    state: PlanStatus | None = None
    all: bool = False
    text: str = ""
    #: Only those this user created.
    creator: str | None = None
    #: Only those behind this one.
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanListPage:
    plans: tuple[PlanListItem, ...]
    #: The last plan of this page, if there are more behind it.
    next: str | None
    #: How many plans are in each state, whatever the filter.
    counts: dict[PlanStatus, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        return sum(count for status, count in self.counts.items() if status not in CLOSED_PLAN)


def page_statements(wanted: PlanFilter, most: int = PAGE_SIZE) -> list[Statement]:
    """What finds a page, and what counts."""
    state = wanted.state
    return [
        plans.SQL["plans_page"](
            open_only=not wanted.all if state is None else state not in CLOSED_PLAN,
            state=state,
            text=wanted.text,
            creator=wanted.creator,
            before=wanted.before or LAST_ID,
            most=most + 1,
            wide=TITLE_EXCERPT_LENGTH,
        ),
        plans.SQL["count_plans"](most=MAX_COUNTED),
    ]


async def browse_plans(
    ctx: RequestContext, wanted: PlanFilter, *, most: int = PAGE_SIZE
) -> PlanListPage:
    """A page of the org's plans, newest plan first.

    The order is that of creation: a plan that moves meanwhile is neither told twice nor missed.

    Raises:
        InvalidInput: the cursor is none of ours, or the text is none to look for.
    """
    _check(wanted)
    rows, counted = await ctx.read(*page_statements(wanted, most))
    found = tuple(_listed(row) for row in rows[:most])
    return PlanListPage(
        plans=found,
        next=found[-1].id if len(rows) > most else None,
        counts={PlanStatus(status): count for status, count in counted},
    )


def _check(wanted: PlanFilter) -> None:
    again = NextCall("list_active_plans", {}, "see the open plans")
    if wanted.before is not None and not is_id(wanted.before):
        raise InvalidInput("the place to go on from is none of ours", next_call=again)
    if "\0" in wanted.text or len(wanted.text) > MAX_TEXT_LENGTH:
        said = f"a text to look for has up to {MAX_TEXT_LENGTH} characters, all of them writable"
        raise InvalidInput(said, next_call=again)


def _listed(row: tuple[Any, ...]) -> PlanListItem:
    plan_id, name, status, updated_at, counts, current, silent_since = row
    return PlanListItem(
        id=plan_id,
        name=name,
        status=PlanStatus(status),
        updated_at=updated_at,
        counts={StepStatus(status): count for status, count in (counts or {}).items()},
        current=CurrentStep(*current) if current else None,
        inactive_since=silent_since,
    )
