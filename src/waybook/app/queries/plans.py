"""Plans for a person: all of them, or the one meant by a few letters.

Plans to leaf through: a page at a time, in an order that stays while the plans move.

The one thing a person means by a few letters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from waybook.app.request.request_context import RequestContext
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.plan.states import CLOSED_PLAN, DONE_STEP, PlanStatus, StepStatus
from waybook.store.driver.ids import is_id
from waybook.store.driver.queries import Statement
from waybook.store.plans import load

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
        load.SQL["plans_page"](
            open_only=not wanted.all if state is None else state not in CLOSED_PLAN,
            state=state,
            text=wanted.text,
            creator=wanted.creator,
            before=wanted.before or LAST_ID,
            most=most + 1,
            wide=TITLE_EXCERPT_LENGTH,
        ),
        load.SQL["count_plans"](most=MAX_COUNTED),
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


#: As many are looked for: enough to name some of those that could be meant.
MAX_CANDIDATES = 5


class NamedItem(Protocol):
    """A plan or a run in a list."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


NamedItemT = TypeVar("NamedItemT", bound=NamedItem)


def resolve_one(
    found: Sequence[NamedItemT], text: str | None, *, what: str, tool: str
) -> NamedItemT:
    """The only one of those found, or the only one that is called just so.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    found = [one for one in found if text in {one.id, one.name}] or found
    if not found:
        said = f"there is no {what} “{text}” here" if text else f"no {what} is open"
        raise NotFound(said, next_call=NextCall(tool, {}, f"see the {what}s"))
    if len(found) > 1:
        names = ", ".join(f"{one.id} ({one.name})" for one in found)
        said = f"“{text}” could mean several {what}s" if text else f"several {what}s are open"
        raise InvalidInput(f"{said}, say which: {names}", next_call=NextCall(tool, {}, "see them"))
    return found[0]


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
    statement = load.SQL["find_plans"](text=text, open_only=open_only, most=limit)
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
