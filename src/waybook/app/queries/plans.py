"""Lists of plans: pages with a stable order, and lookup by id prefix or part of a name."""

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
#: Closed plans are counted up to this many.
MAX_COUNTED = 10_000
#: Length of the instructions' excerpt that replaces a missing title.
TITLE_EXCERPT_LENGTH = 120
MAX_TEXT_LENGTH = 200
#: Sorts after every id that will ever exist.
LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class CurrentStep(NamedTuple):
    order: int
    #: Its title, or the beginning of its instructions.
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanListItem:
    """Plan in a list: its status, current step and last activity."""

    id: str
    name: str
    status: PlanStatus
    updated_at: datetime
    counts: dict[StepStatus, int]
    current: CurrentStep | None
    #: Last heartbeat of the stalled step.
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
    """Filter of plans: open ones, unless a status or all are requested."""

    state: PlanStatus | None = None
    all: bool = False
    text: str = ""
    #: Only plans created by this user.
    creator: str | None = None
    #: Only plans after this one.
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanListPage:
    plans: tuple[PlanListItem, ...]
    #: The last plan of this page, if more follow.
    next: str | None
    #: Number of plans per status, independent of the filter.
    counts: dict[PlanStatus, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        return sum(count for status, count in self.counts.items() if status not in CLOSED_PLAN)


def page_statements(wanted: PlanFilter, most: int = PAGE_SIZE) -> list[Statement]:
    """Return the statements that read a page and the counts."""
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
    """Return a page of the org's plans, newest plan first.

    The order is that of creation: a plan whose status changes meanwhile is neither listed twice nor
    missed.

    Raises:
        InvalidInput: the cursor is not valid, or the text cannot be searched for.
    """
    _check(wanted)
    rows, counted = await ctx.read(*page_statements(wanted, most))
    plans = tuple(_listed(row) for row in rows[:most])
    return PlanListPage(
        plans=plans,
        next=plans[-1].id if len(rows) > most else None,
        counts={PlanStatus(status): count for status, count in counted},
    )


def _check(wanted: PlanFilter) -> None:
    again = NextCall("list_active_plans", {}, "see the open plans")
    if wanted.before is not None and not is_id(wanted.before):
        raise InvalidInput("invalid cursor", next_call=again)
    if "\0" in wanted.text or len(wanted.text) > MAX_TEXT_LENGTH:
        message = f"a text to look for has up to {MAX_TEXT_LENGTH} characters, all of them writable"
        raise InvalidInput(message, next_call=again)


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


#: Candidates looked up: enough to name some of the ambiguous ones.
MAX_CANDIDATES = 5


class NamedItem(Protocol):
    """Plan or run in a list."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


NamedItemT = TypeVar("NamedItemT", bound=NamedItem)


def resolve_one(
    candidates: Sequence[NamedItemT], text: str | None, *, what: str, tool: str
) -> NamedItemT:
    """Return the only candidate, or the only one with exactly this name.

    Raises:
        NotFound: there is no candidate.
        InvalidInput: there are several.
    """
    candidates = [
        candidate for candidate in candidates if text in {candidate.id, candidate.name}
    ] or candidates
    if not candidates:
        message = f"there is no {what} “{text}” here" if text else f"no {what} is open"
        raise NotFound(message, next_call=NextCall(tool, {}, f"see the {what}s"))
    if len(candidates) > 1:
        names = ", ".join(f"{candidate.id} ({candidate.name})" for candidate in candidates)
        message = f"“{text}” could mean several {what}s" if text else f"several {what}s are open"
        raise InvalidInput(
            f"{message}, say which: {names}", next_call=NextCall(tool, {}, "see them")
        )
    return candidates[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """Plan in a list: its name, status and last activity."""

    id: str
    name: str
    status: PlanStatus
    question: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    #: Database time of the query.
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
    """Return plans by id prefix or part of the name, newest activity first."""
    statement = load.SQL["find_plans"](text=text, open_only=open_only, most=limit)
    (rows,) = await ctx.read(statement)
    return [_read_summary(row) for row in rows]


async def resolve_plan(ctx: RequestContext, text: str | None) -> PlanSummary:
    """Return the plan that a text identifies; without a text, the only open one.

    The text is an id, the beginning of an id, a name, or a part of a name.

    Raises:
        NotFound: there is no such plan.
        InvalidInput: there are several.
    """
    candidates = await find_plans(ctx, text or "", open_only=text is None, limit=MAX_CANDIDATES)
    return resolve_one(candidates, text, what="plan", tool="list_active_plans")


def _read_summary(row: tuple[Any, ...]) -> PlanSummary:
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
