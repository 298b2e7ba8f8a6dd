"""Runs for a page: a few at a time, those started last first, with their documents counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from waybook.dag.counts import documents_expected
from waybook.dag.structure import counts_of, sound_structure
from waybook.run.model import Chart
from waybook.store import definitions, runs
from waybook.store.ids import is_id
from waybook.store.runs import LAST_ID, AskedRuns
from waybook.usecases.call import Call
from waybook.usecases.charts import chart_of
from waybook.usecases.find_runs import FoundRun, found_runs

PAGE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run in a list; its documents are counted apart from its steps."""

    run: FoundRun
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
class RunsPage:
    runs: list[ListedRun]
    #: Whether there are more behind the last one.
    more: bool


async def list_runs(call: Call, asked: AskedRuns, limit: int = PAGE) -> RunsPage:
    """A page of runs, in one look, and a second one for definitions not seen before."""
    before = asked.before if is_id(asked.before) else LAST_ID
    asked = AskedRuns(state=asked.state, dag=asked.dag, text=asked.text, before=before)
    (rows,) = await call.read(runs.page_statement(asked, limit + 1))
    shown = rows[:limit]
    await _learn_charts(call, {(row[2], row[3]) for row in shown})
    found = await found_runs(call, [row[:10] for row in shown])
    listed = [_listed(run, *row[10:]) for run, row in zip(found, shown, strict=True)]
    return RunsPage(listed, more=len(rows) > limit)


async def _learn_charts(call: Call, named: set[tuple[str, int]]) -> None:
    """Have every definition at hand that these runs go by."""
    org_id, charts = call.caller.org_id, call.house.charts
    unknown = [one for one in sorted(named) if charts.get(org_id, *one) is None]
    if unknown:
        (rows,) = await call.read(definitions.named_statement(unknown))
        for _, version, body in rows:
            charts.remember(org_id, chart_of(body, version))


def _listed(run: FoundRun, models: Any, available: int) -> ListedRun:  # noqa: ANN401 - a row's
    return ListedRun(
        run=run,
        documents_expected=_expected(run.chart, models or {}),
        documents_available=available,
    )


def _expected(chart: Chart, models: Mapping[str, Sequence[str]]) -> int | None:
    """How many documents the stages that have been started will have, as their report says."""
    counts = counts_of(sound_structure(chart.dag, chart.graphs), models)
    if not counts.keys() >= models.keys():
        return None
    return sum(documents_expected(chart.stages[slug], counts[slug]) for slug in models)
