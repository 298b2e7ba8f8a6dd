"""Runs for a page: a few at a time, those started last first, with their documents counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waybook.dag.counts import documents_expected
from waybook.dag.structure import structure_counts, valid_structure
from waybook.run.model import CompiledDag
from waybook.store import definitions, runs
from waybook.store.ids import is_id
from waybook.store.runs import LAST_ID, RunFilter
from waybook.usecases.call import RequestContext
from waybook.usecases.charts import compile_definition
from waybook.usecases.find_runs import RunSummary, read_run_summaries

PAGE_SIZE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListItem:
    """A run in a list; its documents are counted apart from its steps."""

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
        """The steps of the stages that have been started."""
        return sum(self.run.steps_of(stage.slug) for stage in self.run.stages)


@dataclass(frozen=True, slots=True)
class RunListPage:
    runs: list[RunListItem]
    #: Whether there are more behind the last one.
    more: bool


async def list_runs(ctx: RequestContext, asked: RunFilter, limit: int = PAGE_SIZE) -> RunListPage:
    """A page of runs, in one look, and a second one for definitions not seen before."""
    before = asked.before if is_id(asked.before) else LAST_ID
    asked = RunFilter(state=asked.state, dag=asked.dag, text=asked.text, before=before)
    (rows,) = await ctx.read(runs.page_statement(asked, limit + 1))
    shown = rows[:limit]
    await _learn_charts(ctx, {(row[2], row[3]) for row in shown})
    found = await read_run_summaries(ctx, [row[:10] for row in shown])
    listed = [_listed(run, *row[10:]) for run, row in zip(found, shown, strict=True)]
    return RunListPage(listed, more=len(rows) > limit)


async def _learn_charts(ctx: RequestContext, named: set[tuple[str, int]]) -> None:
    """Have every definition at hand that these runs go by."""
    org_id, charts = ctx.caller.org_id, ctx.services.definition_cache
    unknown = [one for one in sorted(named) if charts.get(org_id, *one) is None]
    if unknown:
        (rows,) = await ctx.read(definitions.named_statement(unknown))
        for _, version, body in rows:
            charts.put(org_id, compile_definition(body, version))


def _listed(run: RunSummary, models: Any, available: int) -> RunListItem:  # noqa: ANN401 - a row's
    return RunListItem(
        run=run,
        documents_expected=_expected(run.compiled_dag, models or {}),
        documents_available=available,
    )


def _expected(compiled_dag: CompiledDag, models: Mapping[str, Sequence[str]]) -> int | None:
    """How many documents the stages that have been started will have, as their report says."""
    counts = structure_counts(valid_structure(compiled_dag.dag, compiled_dag.graphs), models)
    if not counts.keys() >= models.keys():
        return None
    return sum(documents_expected(compiled_dag.stages[slug], counts[slug]) for slug in models)
