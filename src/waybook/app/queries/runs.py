"""Lists of runs: pages with document counts, and lookup by id prefix or part of a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.app.queries.plans import MAX_CANDIDATES, resolve_one
from waybook.app.request.definition_cache import compile_definition
from waybook.app.request.locking import load_definition
from waybook.app.request.request_context import RequestContext
from waybook.dag.expansion.counts import documents_expected
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.run.model import CompiledDag
from waybook.run.status import RunState
from waybook.store.driver.ids import is_id
from waybook.store.runs import load
from waybook.store.runs.load import LAST_ID, RunFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """Started stage, with its step counts."""

    slug: str
    completed: bool
    #: Whether a person has given feedback on it.
    has_feedback: bool
    closed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Run in a list: its name, status and last activity."""

    id: str
    name: str
    compiled_dag: CompiledDag
    created_at: datetime
    created_by: str
    updated_at: datetime
    completed_at: datetime | None
    #: Database time of the query.
    now: datetime
    #: Started stages, in the order they were started.
    stages: tuple[StageSummary, ...]

    @property
    def state(self) -> RunState:
        """Return the state of the run as a whole."""
        if self.completed_at is not None:
            return RunState.COMPLETED
        if any(stage.failed for stage in self.stages):
            return RunState.FAILED
        return RunState.AWAITING_FEEDBACK if self.awaiting else RunState.IN_PROGRESS

    @property
    def current(self) -> StageSummary | None:
        """Return the stage that was started last and is not completed."""
        return next((stage for stage in reversed(self.stages) if not stage.completed), None)

    @property
    def awaiting(self) -> StageSummary | None:
        """Return the stage that awaits feedback, if nothing else is in progress."""
        if self.completed_at is not None or self.current is not None:
            return None
        after = self.compiled_dag.dag.after
        return next((s for s in self.stages if not s.has_feedback and after(s.slug)), None)

    @property
    def completed_stages(self) -> int:
        return sum(stage.completed for stage in self.stages)

    @property
    def total_stages(self) -> int:
        return len(self.compiled_dag.order)

    def steps_of(self, slug: str) -> int:
        """Return the number of steps of a stage."""
        return len(self.compiled_dag.graphs[slug].order)


async def find_runs(
    ctx: RequestContext, text: str = "", *, open_only: bool = True, limit: int = 100
) -> list[RunSummary]:
    """Return runs by id prefix or part of the name, newest activity first."""
    (rows,) = await ctx.read(load.find_statement(limit, open_only=open_only, text=text))
    return await read_run_summaries(ctx, rows)


async def read_run_summaries(
    ctx: RequestContext, rows: Sequence[Sequence[Any]]
) -> list[RunSummary]:
    """Return the runs from their rows, each with its definition."""
    return [_read_summary(row, await load_definition(ctx, row[2], row[3])) for row in rows]


async def resolve_run(ctx: RequestContext, text: str | None) -> RunSummary:
    """Return the run that a text identifies; without a text, the only open one.

    The text is an id, the beginning of an id, a name, or a part of a name.

    Raises:
        NotFound: there is no such run.
        InvalidInput: there are several.
    """
    candidates = await find_runs(ctx, text or "", open_only=text is None, limit=MAX_CANDIDATES)
    return resolve_one(candidates, text, what="run", tool="list_dags")


def _read_summary(row: Sequence[Any], compiled_dag: CompiledDag) -> RunSummary:
    run_id, name, _, _, created_at, created_by, updated_at, completed_at, now, stages = row
    return RunSummary(
        id=run_id,
        name=name,
        compiled_dag=compiled_dag,
        created_at=created_at,
        created_by=created_by,
        updated_at=updated_at,
        completed_at=completed_at,
        now=now,
        stages=tuple(
            StageSummary(
                slug=slug,
                completed=completed,
                has_feedback=has_feedback,
                closed=closed,
                failed=failed,
            )
            for slug, completed, has_feedback, closed, failed in stages or ()
        ),
    )


PAGE_SIZE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListItem:
    """Run in a list; its documents are counted separately from its steps."""

    run: RunSummary
    #: None where it cannot be known.
    documents_expected: int | None
    documents_available: int

    @property
    def steps_done(self) -> int:
        return sum(stage.closed for stage in self.run.stages)

    @property
    def steps_failed(self) -> int:
        return sum(stage.failed for stage in self.run.stages)

    @property
    def steps_total(self) -> int:
        """Return the number of steps of the started stages."""
        return sum(self.run.steps_of(stage.slug) for stage in self.run.stages)


@dataclass(frozen=True, slots=True)
class RunListPage:
    runs: list[RunListItem]
    #: Whether more runs follow the last one.
    more: bool


async def list_runs(ctx: RequestContext, filter_: RunFilter, limit: int = PAGE_SIZE) -> RunListPage:
    """Return a page of runs: one read, and a second one for definitions not cached yet."""
    before = filter_.before if is_id(filter_.before) else LAST_ID
    filter_ = RunFilter(state=filter_.state, dag=filter_.dag, text=filter_.text, before=before)
    (rows,) = await ctx.read(load.page_statement(filter_, limit + 1))
    shown = rows[:limit]
    await _learn_charts(ctx, {(row[2], row[3]) for row in shown})
    runs = await read_run_summaries(ctx, [row[:10] for row in shown])
    listed = [_listed(run, *row[10:]) for run, row in zip(runs, shown, strict=True)]
    return RunListPage(listed, more=len(rows) > limit)


async def _learn_charts(ctx: RequestContext, named: set[tuple[str, int]]) -> None:
    """Load every definition that these runs use into the cache."""
    org_id, charts = ctx.caller.org_id, ctx.services.definition_cache
    unknown = [key for key in sorted(named) if charts.get(org_id, *key) is None]
    if unknown:
        (rows,) = await ctx.read(load.named_statement(unknown))
        for _, version, body in rows:
            charts.put(org_id, compile_definition(body, version))


def _listed(run: RunSummary, models: Any, available: int) -> RunListItem:  # noqa: ANN401 - a row's
    return RunListItem(
        run=run,
        documents_expected=_expected(run.compiled_dag, models or {}),
        documents_available=available,
    )


def _expected(compiled_dag: CompiledDag, models: Mapping[str, Sequence[str]]) -> int | None:
    """Return how many documents the started stages will have, as their report says."""
    counts = structure_counts(valid_structure(compiled_dag.dag, compiled_dag.graphs), models)
    if not counts.keys() >= models.keys():
        return None
    return sum(documents_expected(compiled_dag.stages[slug], counts[slug]) for slug in models)
