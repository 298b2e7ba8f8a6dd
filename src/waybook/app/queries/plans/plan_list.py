"""Lists of plans, and lookup of a plan by id or name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeVar

from waybook.app.request.request_context import RequestContext
from waybook.app.request.short_ids import find_full_id
from waybook.core.short_ids import IdKind, short_id
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.plan.model import OPEN_STATES, PlanState, StepStatus
from waybook.plan.progress import Progress
from waybook.store.driver.queries import LAST_ID, Statement, is_id
from waybook.store.plans import lists
from waybook.store.plans.lists import PlanSummaryRow

PAGE_SIZE = 50
MAX_COUNTED = 1_000
EXCERPT_LENGTH = 120
MAX_TEXT_LENGTH = 200
MAX_WALKED = 500
MAX_NAMED = 500
FIRST_ID = "00000000-0000-0000-0000-000000000000"


class CurrentStep(NamedTuple):
    order: int
    #: Title of the step or, without a title, the beginning of its instructions.
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    id: str
    name: str
    state: PlanState
    revision: int
    question: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    now: datetime
    progress: Progress
    current_step: CurrentStep | None
    #: Last heartbeat of the stalled step, if a step is stalled.
    inactive_since: datetime | None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class PlanOrder(Enum):
    #: Newest plan first. A client that reads all pages in this order sees every plan exactly once.
    CREATION = auto()
    ACTIVITY = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFilter:
    order: PlanOrder
    state: PlanState | None = None
    all: bool = False
    #: Beginning of a plan's id, or a part of its name.
    text: str = ""
    creator: str | None = None
    before: str | None = None
    before_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    plans: tuple[PlanSummary, ...]
    #: Last plan of this page, if more plans follow.
    last: PlanSummary | None
    #: Number of plans in each state, up to `MAX_COUNTED`, regardless of the filter. In the order
    #: by activity, only open plans are counted.
    counts: dict[PlanState, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        return sum(count for state, count in self.counts.items() if state in OPEN_STATES)

    def is_minimum(self, *states: PlanState) -> bool:
        return any(self.counts.get(state, 0) >= MAX_COUNTED for state in states or PlanState)


def summaries_statement(wanted: PlanFilter, most: int) -> Statement:
    state = wanted.state
    filters = {
        "open_only": not wanted.all if state is None else state in OPEN_STATES,
        "state": state,
        "creator": wanted.creator,
        "before": wanted.before or LAST_ID,
        "most": most,
        "wide": EXCERPT_LENGTH,
    }
    if wanted.text:
        first_id, last_id = id_range(wanted.text)
        by_activity = wanted.order is PlanOrder.ACTIVITY
        return lists.SQL["plans_with_text"](
            **filters,
            text=wanted.text,
            first_id=first_id,
            last_id=last_id,
            by_activity=by_activity,
            enough=MAX_WALKED if by_activity else most,
            walked=MAX_WALKED,
            named=MAX_NAMED,
        )
    if wanted.order is PlanOrder.ACTIVITY:
        return lists.SQL["plans_by_activity"](**filters, before_at=wanted.before_at)
    if wanted.creator is not None:
        return lists.SQL["plans_of_creator"](**filters)
    if state is None:
        return lists.SQL["plans_by_creation"](**filters)
    del filters["open_only"]
    return lists.SQL["plans_in_state"](**filters)


def id_range(text: str) -> tuple[str | None, str | None]:
    """Return the smallest and the largest id that begin with the text, if there can be any.

    >>> id_range("0190B")
    ('0190b000-0000-0000-0000-000000000000', '0190bfff-ffff-ffff-ffff-ffffffffffff')
    >>> id_range("River")
    (None, None)
    """
    text = text.lower()
    first, last = (text + end[len(text) :] for end in (FIRST_ID, LAST_ID))
    return (first, last) if is_id(first) else (None, None)


async def plan_summaries(
    ctx: RequestContext, wanted: PlanFilter, *, limit: int = PAGE_SIZE
) -> PlanPage:
    again = NextCall("list_active_plans", {}, "List the open plans.")
    if wanted.before is not None and not is_id(wanted.before):
        raise InvalidInput("invalid cursor", next_call=again)
    if "\0" in wanted.text or len(wanted.text) > MAX_TEXT_LENGTH:
        message = f"a search text may have at most {MAX_TEXT_LENGTH} printable characters"
        raise InvalidInput(message, next_call=again)
    wanted = replace(wanted, text=await find_full_id(ctx, wanted.text, IdKind.PLAN) or wanted.text)
    rows, counts = await ctx.read(
        summaries_statement(wanted, limit + 1),
        lists.SQL["count_plans"](most=MAX_COUNTED, closed=wanted.order is PlanOrder.CREATION),
    )
    plans = read_summaries(rows[:limit])
    return PlanPage(
        plans=plans,
        last=plans[-1] if len(rows) > limit else None,
        counts={PlanState(row.state): row.plans for row in counts if row.plans},
    )


def read_summaries(rows: Iterable[PlanSummaryRow]) -> tuple[PlanSummary, ...]:
    return tuple(
        PlanSummary(
            id=row.id,
            name=row.name,
            state=PlanState(row.state),
            revision=row.revision,
            question=row.question,
            created_at=row.created_at,
            created_by=row.created_by,
            updated_at=row.updated_at,
            now=row.now,
            progress=read_progress(row.counts),
            current_step=CurrentStep(*row.current_step) if row.current_step else None,
            inactive_since=row.inactive_since,
        )
        for row in rows
    )


#: A lookup by name is faster than calling the enumeration.
_STEP_STATUSES: Final[Mapping[str, StepStatus]] = {status.value: status for status in StepStatus}


def read_progress(counts: Mapping[str, int]) -> Progress:
    return Progress({_STEP_STATUSES[status]: count for status, count in counts.items() if count})


async def resolve_plan(ctx: RequestContext, text: str | None) -> PlanSummary:
    """Return the plan whose id or name matches the text or, without a text, the only open plan.

    Raises:
        NotFound: there is no such plan.
        InvalidInput: several plans match.
    """
    named = await find_full_id(ctx, text or "", IdKind.PLAN) or text
    wanted = PlanFilter(order=PlanOrder.ACTIVITY, all=text is not None, text=named or "")
    (rows,) = await ctx.read(summaries_statement(wanted, MAX_CANDIDATES))
    candidates = read_summaries(rows)
    return resolve_one(candidates, named, what="plan", tool="list_active_plans")


MAX_CANDIDATES = 5


class NamedItem(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


NamedItemT = TypeVar("NamedItemT", bound=NamedItem)


def resolve_one(
    candidates: Sequence[NamedItemT], text: str | None, *, what: str, tool: str
) -> NamedItemT:
    """Return the only candidate, or the only one whose id or name equals the text.

    Raises:
        NotFound: there is no candidate.
        InvalidInput: there are several candidates.
    """
    candidates = [
        candidate for candidate in candidates if text in {candidate.id, candidate.name}
    ] or candidates
    if not candidates:
        message = f"there is no {what} “{text}” here" if text else f"no {what} is open"
        raise NotFound(message, next_call=NextCall(tool, {}, f"List the {what}s."))
    if len(candidates) > 1:
        names = ", ".join(f"{short_id(item.id)} ({item.name})" for item in candidates)
        message = f"“{text}” could mean several {what}s" if text else f"several {what}s are open"
        raise InvalidInput(
            f"{message}; choose one: {names}", next_call=NextCall(tool, {}, f"List the {what}s.")
        )
    return candidates[0]
