"""Lists of runs, and lookup of a run by id or name."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from waybook.app.queries.plans.plan_list import (
    MAX_CANDIDATES,
    MAX_NAMED,
    MAX_WALKED,
    id_range,
    resolve_one,
    resolve_plan,
)
from waybook.app.request.definition_cache import DefinitionCache, compile_definition
from waybook.app.request.request_context import RequestContext
from waybook.app.request.short_ids import find_full_id
from waybook.core.short_ids import IdKind
from waybook.dag.expansion.counts import documents_expected
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.dag.statuses import RunState
from waybook.errors import NextCall, NotFound
from waybook.run.model import CompiledDag, RunList
from waybook.store.driver.queries import LAST_ID, Statement, is_id
from waybook.store.runs import load
from waybook.store.runs.rows import RunSummaryRow

PAGE_SIZE = 25
OPEN = "open"


async def last_active_run(ctx: RequestContext) -> str:
    """Return the id of the run with the latest activity.

    Raises:
        NotFound: the org has no run.
    """
    (rows,) = await ctx.read(page_statement(RunFilter(), 1))
    if not rows:
        raise NotFound(
            "there is no run yet",
            next_call=NextCall("list_dags", {}, "List the workflows, then start a run of one."),
        )
    run: RunSummaryRow = rows[0]
    return run.id


class RunOrder(Enum):
    #: Most recently active run first.
    ACTIVITY = auto()
    #: Latest start first.
    START = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    state: str | None = None
    dag: str | None = None
    #: Beginning of a run's id, or a part of its name.
    text: str = ""
    #: Only runs that started before the run with this id are listed.
    before: str | None = None
    order: RunOrder = RunOrder.ACTIVITY


class StageSummary(NamedTuple):
    slug: str
    completed: bool
    has_feedback: bool
    closed: int
    failed: int
    models: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    id: str
    name: str
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


@dataclass(frozen=True, slots=True)
class RunPage:
    runs: list[RunSummary]
    more: bool


def page_statement(wanted: RunFilter, most: int) -> Statement:
    before = wanted.before or LAST_ID
    filters = {
        "before": before if is_id(before) else LAST_ID,
        "state": wanted.state,
        "dag": wanted.dag,
        "most": most,
    }
    by_activity = wanted.order is RunOrder.ACTIVITY
    if not wanted.text:
        return load.list_statement(by_activity=by_activity, **filters)
    first_id, last_id = id_range(wanted.text)
    # Only a page in order of start, without filters, has the newest matching runs.
    is_page = not by_activity and wanted.state is None and wanted.dag is None
    return load.text_statement(
        **filters,
        text=wanted.text,
        first_id=first_id,
        last_id=last_id,
        by_activity=by_activity,
        enough=most if is_page else MAX_WALKED + 1,
        walked=MAX_WALKED,
        named=MAX_NAMED,
    )


async def list_runs(ctx: RequestContext, wanted: RunFilter, limit: int = PAGE_SIZE) -> RunPage:
    wanted = replace(wanted, text=await find_full_id(ctx, wanted.text, IdKind.RUN) or wanted.text)
    (rows,) = await ctx.read(page_statement(wanted, limit + 1))
    return RunPage(await read_run_summaries(ctx, rows[:limit]), more=len(rows) > limit)


async def resolve_run(ctx: RequestContext, text: str | None) -> RunSummary:
    """Return the run whose id or name matches the text or, without a text, the only open run.

    Raises:
        NotFound: there is no such run.
        InvalidInput: several runs match.
    """
    wanted = RunFilter(text=text or "", state=OPEN if text is None else None)
    candidates = (await list_runs(ctx, wanted, MAX_CANDIDATES)).runs
    return resolve_one(candidates, text, what="run", tool="list_dags")


async def resolve_plan_or_run(ctx: RequestContext, text: str) -> str:
    """Return the id of the plan or, if no plan matches, of the run that the text identifies."""
    for resolve in (resolve_plan, resolve_run):
        with suppress(NotFound):
            return (await resolve(ctx, text)).id
    raise NotFound(f"no plan or run matches “{text}”")


async def read_run_summaries(
    ctx: RequestContext, rows: Sequence[RunSummaryRow]
) -> list[RunSummary]:
    dags = await load_definitions(ctx, {(row.dag_slug, row.dag_version) for row in rows})
    return [
        RunSummary(
            id=row.id,
            name=row.name,
            compiled_dag=dags[row.dag_slug, row.dag_version],
            created_at=row.created_at,
            created_by=row.created_by,
            updated_at=row.updated_at,
            completed_at=row.completed_at,
            canceled_at=row.canceled_at,
            now=row.now,
            stages=tuple(StageSummary(*stage) for stage in row.stages or ()),
            lists=load.read_lists(row.lists),
            documents_available=row.documents_available,
        )
        for row in rows
    ]


async def load_definitions(
    ctx: RequestContext, keys: set[tuple[str, int]]
) -> dict[tuple[str, int], CompiledDag]:
    """Return these workflow definitions. Missing ones are read in one query."""
    org_id, cache = ctx.caller.org_id, ctx.services.shared(DefinitionCache)
    found = {key: dag for key in keys if (dag := cache.get(org_id, *key)) is not None}
    if missing := sorted(keys - found.keys()):
        (rows,) = await ctx.read(load.named_statement(missing))
        for row in rows:
            compiled_dag = compile_definition(row.body, row.version)
            found[row.slug, row.version] = cache.put(org_id, compiled_dag)
    return found
