"""Lists plans and runs, and finds a plan or run by its id or name."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from waybook.app.request.definition_cache import DefinitionCache, compile_stored
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import Facts, Kind
from waybook.core.ids import ALPHABET, LAST_ID, LENGTH, is_id, normalize_id
from waybook.core.shown import ENDED, Shown, shown_group
from waybook.dag.expansion.inputs import documents_expected
from waybook.dag.model import RunState
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.plan.model import PlanState
from waybook.run.model import CompiledDag, RunList
from waybook.store.driver.queries import Row, Statement
from waybook.store.plans import details, lists
from waybook.store.plans.lists import CurrentStep, PlanSummary
from waybook.store.runs import load

__all__ = ["CurrentStep", "PlanSummary"]

PLANS_PER_PAGE, _RUNS_PER_PAGE = 50, 25
MAX_COUNTED = 1_000
EXCERPT_LENGTH = 120
MAX_TEXT_LENGTH = 200
MAX_WALKED = 500
_MIN_ID_START_LENGTH = 6
_MAX_NAMED = 500


class ListOrder(Enum):
    #: Newest first. A client that reads all pages in this order sees every item exactly once.
    CREATION = auto()
    #: Most recently active first.
    ACTIVITY = auto()


class PlanFilter(NamedTuple):
    order: ListOrder
    #: `Shown.TODO` stands for all states of `TO_DO`.
    state: Shown | None = None
    all: bool = False
    #: Text to search for: the beginning of a plan's id, or a part of a plan's name.
    text: str = ""
    creator: str | None = None
    before: str | None = None
    before_at: datetime | None = None


class PlanPage(NamedTuple):
    plans: tuple[PlanSummary, ...]
    #: Last plan of this page, if more plans follow.
    last: PlanSummary | None
    #: Number of plans in each state, up to about `MAX_COUNTED`, regardless of the filter. If
    #: the plans are sorted by activity, only open plans are counted. All plans to do are counted
    #: as `Shown.TODO`.
    counts: Mapping[Shown, int]
    #: States whose plans were not all counted.
    minimums: frozenset[Shown]
    #: Time and cost of earlier plans, from which the rest of a plan can be forecast.
    history: Sequence[Row] = ()

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def is_minimum(self, *states: Shown) -> bool:
        return not self.minimums.isdisjoint(states or Shown)


def plans_statement(wanted: PlanFilter, most: int) -> Statement:
    state = wanted.state
    filters = {
        "open_only": not wanted.all if state is None else state not in ENDED,
        "state": state,
        "creator": wanted.creator,
        "before": wanted.before or LAST_ID,
        "most": most,
        "wide": EXCERPT_LENGTH,
    }
    if wanted.text:
        by_activity = wanted.order is ListOrder.ACTIVITY
        enough = MAX_WALKED if by_activity else most
        return lists.SQL["plans_with_text"](
            **filters, **_text_filters(wanted.text), by_activity=by_activity, enough=enough
        )
    if wanted.order is ListOrder.ACTIVITY:
        return lists.SQL["plans_by_activity"](**filters, before_at=wanted.before_at)
    if wanted.creator is not None:
        return lists.SQL["plans_of_creator"](**filters)
    if state in {None, Shown.TODO}:
        return lists.SQL["plans_by_creation"](**filters)
    del filters["open_only"]
    return lists.SQL["plans_in_state"](**filters)


def _text_filters(text: str) -> dict[str, str | int | None]:
    first_id, last_id = _id_range(text)
    return {
        "text": text,
        "first_id": first_id,
        "last_id": last_id,
        "walked": MAX_WALKED,
        "named": _MAX_NAMED,
    }


def _id_range(text: str) -> tuple[str | None, str | None]:
    """Return the smallest and the largest id with this beginning, or None if there can be none.

    >>> _id_range("AZ4R35")
    ('az4r35222222', 'az4r35zzzzzz')
    >>> _id_range("River")
    (None, None)
    """
    start = text.strip().lower()
    # A short text is not treated as an id, because many ids and many words could begin with it.
    if not _MIN_ID_START_LENGTH <= len(start) <= LENGTH or not set(start) <= set(ALPHABET):
        return None, None
    return start.ljust(LENGTH, ALPHABET[0]), start.ljust(LENGTH, ALPHABET[-1])


async def plan_summaries(
    ctx: RequestContext,
    wanted: PlanFilter,
    *,
    limit: int = PLANS_PER_PAGE,
    history: bool = False,
) -> PlanPage:
    again = NextCall("list_active_plans", {}, "List the open plans.")
    if wanted.before is not None and not is_id(wanted.before):
        raise InvalidInput("invalid cursor", next_call=again)
    if "\0" in wanted.text or len(wanted.text) > MAX_TEXT_LENGTH:
        message = f"a search text may have at most {MAX_TEXT_LENGTH} printable characters"
        raise InvalidInput(message, next_call=again)
    rows, counts, *earlier = await ctx.read(
        plans_statement(wanted, limit + 1),
        lists.SQL["count_plans"](most=MAX_COUNTED, closed=wanted.order is ListOrder.CREATION),
        *([details.SQL["finished_plans"](plan_id=LAST_ID)] if history else ()),
    )
    plans, numbers = _read_summaries(rows[:limit]), Counter[Shown]()
    for row in counts:
        numbers[Shown(row.state)] += row.plans
    return PlanPage(
        plans=plans,
        last=plans[-1] if len(rows) > limit else None,
        counts={state: number for state, number in numbers.items() if number},
        minimums=frozenset(Shown(row.state) for row in counts if row.is_minimum),
        history=[row for rows in earlier for row in rows],
    )


def _read_summaries(rows: Iterable[PlanSummary]) -> tuple[PlanSummary, ...]:
    return tuple(
        row._replace(
            state=PlanState(row.state),
            current_step=CurrentStep(*row.current_step) if row.current_step else None,
        )
        for row in rows
    )


async def resolve_plan(ctx: RequestContext, text: str | None) -> PlanSummary:
    """Return the plan whose id or name matches the text or, without a text, the only open plan."""
    wanted = PlanFilter(order=ListOrder.ACTIVITY, all=text is not None, text=text or "")
    (rows,) = await ctx.read(plans_statement(wanted, MAX_CANDIDATES))
    candidates = _read_summaries(rows)
    return _resolve_one(candidates, text, what="plan", tool="list_active_plans")


MAX_CANDIDATES = 5


_WorkT = TypeVar("_WorkT", PlanSummary, "RunSummary")


def _resolve_one(candidates: Sequence[_WorkT], text: str | None, *, what: str, tool: str) -> _WorkT:
    """Return the only candidate, or the only one whose id or name equals the text."""
    candidates = [
        candidate
        for candidate in candidates
        if text is not None and (text == candidate.name or normalize_id(text) == candidate.id)
    ] or candidates
    if not candidates:
        message = f"there is no {what} “{text}” here" if text else f"no {what} is open"
        raise NotFound(message, next_call=NextCall(tool, {}, f"List the {what}s."))
    if len(candidates) > 1:
        names = ", ".join(f"{item.id} ({item.name})" for item in candidates)
        message = f"“{text}” could mean several {what}s" if text else f"several {what}s are open"
        raise InvalidInput(
            f"{message}; choose one: {names}", next_call=NextCall(tool, {}, f"List the {what}s.")
        )
    return candidates[0]


OPEN = "open"


async def last_active_run(ctx: RequestContext) -> str:
    (rows,) = await ctx.read(runs_statement(RunFilter(), 1))
    if not rows:
        raise NotFound(
            "there is no run yet",
            next_call=NextCall("list_dags", {}, "List the workflows, then start a run of one."),
        )
    return str(rows[0].id)


class RunFilter(NamedTuple):
    #: The value of a `Shown`, or `OPEN`.
    state: str | None = None
    dag: str | None = None
    #: Text to search for: the beginning of a run's id, or a part of a run's name.
    text: str = ""
    #: Id of a run. Only runs that started before this run are listed.
    before: str | None = None
    order: ListOrder = ListOrder.ACTIVITY


class StageSummary(NamedTuple):
    slug: str
    completed: bool
    has_feedback: bool
    closed: int
    failed: int
    models: Sequence[str]
    #: Whether a step has jobs that are not finished.
    goes_on: bool = False


class RunSummary(NamedTuple):
    id: str
    name: str
    dag_slug: str
    dag_version: int
    compiled_dag: CompiledDag
    created_at: datetime
    created_by: str
    updated_at: datetime
    completed_at: datetime | None
    canceled_at: datetime | None
    now: datetime
    stages: tuple[StageSummary, ...]
    lists: tuple[RunList, ...]
    #: None if documents are not counted.
    documents_available: int | None
    awaiting_since: datetime | None
    cost_micros: int | None

    @property
    def current(self) -> StageSummary | None:
        return next((stage for stage in reversed(self.stages) if not stage.completed), None)

    @property
    def stages_done(self) -> int:
        return sum(stage.completed for stage in self.stages)

    @property
    def stages_total(self) -> int:
        return len(self.compiled_dag.order)

    def steps_of(self, slug: str) -> int:
        return len(self.compiled_dag.graphs[slug].order)

    @property
    def steps_done(self) -> int:
        return sum(stage.closed for stage in self.stages)

    @property
    def steps_failed(self) -> int:
        return sum(stage.failed for stage in self.stages)

    @property
    def steps_total(self) -> int:
        return sum(map(self.steps_of, self.compiled_dag.order))

    @property
    def state(self) -> RunState:
        if self.completed_at is not None:
            return RunState.COMPLETED
        if self.canceled_at is not None:
            return RunState.CANCELED
        if self.steps_failed:
            return RunState.FAILED
        return RunState.AWAITING_FEEDBACK if self.awaiting else RunState.IN_PROGRESS

    @property
    def shown(self) -> Shown:
        return shown_group(self.state, goes_on=any(stage.goes_on for stage in self.stages))

    @property
    def facts(self) -> Facts:
        return Facts(Kind.RUN, self.shown, failed=self.steps_failed)

    @property
    def awaiting(self) -> StageSummary | None:
        """Return the stage that awaits feedback, unless another stage is in progress."""
        is_closed = (self.completed_at or self.canceled_at) is not None
        if is_closed or self.current is not None:
            return None
        after = self.compiled_dag.dag.after
        return next((s for s in self.stages if not s.has_feedback and after(s.slug)), None)

    @property
    def documents_expected(self) -> int | None:
        dag, models = self.compiled_dag, {stage.slug: stage.models for stage in self.stages}
        lengths = {known.name: known.length for known in self.lists}
        counts = structure_counts(valid_structure(dag.dag, dag.graphs), models, lengths)
        if not counts.keys() >= models.keys():
            return None
        expected = [documents_expected(dag.stages[slug], counts[slug]) for slug in models]
        known = [count for count in expected if count is not None]
        return sum(known) if len(known) == len(expected) else None


def runs_statement(wanted: RunFilter, most: int) -> Statement:
    before = wanted.before or LAST_ID
    filters = {
        "before": before if is_id(before) else LAST_ID,
        "state": wanted.state,
        "dag": wanted.dag,
        "most": most,
    }
    by_activity = wanted.order is ListOrder.ACTIVITY
    if not wanted.text:
        return load.list_statement(by_activity=by_activity, **filters)
    # The query looks at the newest runs first. If the list is sorted by start and has no other
    # filter, the query can stop when the page is full. Otherwise, it must look at older runs too.
    is_page = not by_activity and wanted.state is None and wanted.dag is None
    enough = most if is_page else MAX_WALKED + 1
    return load.text_statement(
        **filters, **_text_filters(wanted.text), by_activity=by_activity, enough=enough
    )


async def list_runs(
    ctx: RequestContext, wanted: RunFilter, limit: int = _RUNS_PER_PAGE
) -> tuple[list[RunSummary], bool]:
    """Return a page of runs, and whether more runs follow."""
    (rows,) = await ctx.read(runs_statement(wanted, limit + 1))
    return await read_run_summaries(ctx, rows[:limit]), len(rows) > limit


async def list_and_count_runs(
    ctx: RequestContext, wanted: RunFilter
) -> tuple[list[RunSummary], bool, Sequence[Row]]:
    """Return a page of runs, whether more follow, and the number of all runs in each state."""
    rows, counts = await ctx.read(
        runs_statement(wanted, _RUNS_PER_PAGE + 1), load.SQL["count_runs"](most=MAX_COUNTED)
    )
    shown = await read_run_summaries(ctx, rows[:_RUNS_PER_PAGE])
    return shown, len(rows) > _RUNS_PER_PAGE, counts


async def resolve_run(ctx: RequestContext, text: str | None) -> RunSummary:
    """Return the run whose id or name matches the text or, without a text, the only open run."""
    wanted = RunFilter(text=text or "", state=OPEN if text is None else None)
    candidates, _ = await list_runs(ctx, wanted, MAX_CANDIDATES)
    return _resolve_one(candidates, text, what="run", tool="list_dags")


async def resolve_plan_or_run(ctx: RequestContext, text: str) -> str:
    """Return the id of the plan or, if no plan matches, of the run that the text identifies."""
    for resolve in (resolve_plan, resolve_run):
        with suppress(NotFound):
            return (await resolve(ctx, text)).id
    raise NotFound(f"no plan or run matches “{text}”")


async def read_run_summaries(ctx: RequestContext, rows: Sequence[Row]) -> list[RunSummary]:
    dags = await load_definitions(ctx, {(row.dag_slug, row.dag_version) for row in rows})
    return [
        RunSummary(
            **row._asdict()
            | {
                "compiled_dag": dags[row.dag_slug, row.dag_version],
                "stages": tuple(StageSummary(*stage) for stage in row.stages or ()),
                "lists": load.read_lists(row.lists),
            }
        )
        for row in rows
    ]


async def load_definitions(
    ctx: RequestContext, keys: set[tuple[str, int]]
) -> dict[tuple[str, int], CompiledDag]:
    """Return workflow definitions by slug and version. One query reads those not in the cache."""
    org_id, cache = ctx.caller.org_id, ctx.services.shared(DefinitionCache)
    found = {key: dag for key in keys if (dag := cache.get(org_id, *key)) is not None}
    if missing := sorted(keys - found.keys()):
        (rows,) = await ctx.read(load.named_statement(missing))
        for row in rows:
            compiled_dag = compile_stored(row.body, row.version)
            found[row.slug, row.version] = cache.put(org_id, compiled_dag)
    return found
