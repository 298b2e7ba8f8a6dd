"""Runs for tests: random DAGs with models for each stage, and the documents that they produce."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from hypothesis import strategies as st

from dag_builders import dags, make_dag, models
from waybook.dag.expansion.inputs import Document, StageCounts, expected_counts
from waybook.dag.expansion.units import (
    ItemOrigins,
    Lengths,
    Origins,
    ProducedDocument,
    Unit,
    entry_origins,
    item_lists,
    item_origins,
    merge_origins,
    units_of,
)
from waybook.dag.graph import Graph, graph_of, output_keys
from waybook.dag.model import Dag, Stage


def origins_of(made: Iterable[ProducedDocument]) -> Origins:
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for output in made:
        first_author.setdefault(output.lineage, output.model)
        authors[output.model] = None
    return Origins(first_author=first_author, authors=tuple(authors))


def dag_counts(
    dag: Dag,
    graphs: Mapping[str, Graph],
    models_of: Mapping[str, Sequence[str]],
    lengths: Lengths | None = None,
) -> Mapping[str, StageCounts]:
    """Return the expected numbers of jobs of every stage, in topological order of the stages.

    `models_of` gives the models of each stage; a stage that it omits has none. `lengths` gives the
    number of items of each list; a list that it omits has three, or its maximum if that is smaller.
    """
    items = sample_items(dag, lengths)
    stages = {stage.slug: stage for stage in dag.stages}
    before = _before(dag)
    counts: dict[str, StageCounts] = {}
    for slug in TopologicalSorter(before).static_order():
        models = models_of.get(slug, ())
        prior = [counts[source].leaves for source in before[slug]]
        origins = merge_origins(prior) if prior else entry_origins(models)
        counts[slug] = expected_counts(stages[slug], graphs[slug], models, origins, items)
    return {slug: counts[slug] for slug in stages}


def _before(dag: Dag) -> Mapping[str, Sequence[str]]:
    """Return the predecessors of each stage, in the order in which the DAG declares them."""
    place = {stage.slug: number for number, stage in enumerate(dag.stages)}
    before: dict[str, list[str]] = {stage.slug: [] for stage in dag.stages}
    for transition in sorted(dag.transitions, key=lambda way: place[way.source]):
        before[transition.target].append(transition.source)
    return before


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    stage: Stage
    graph: Graph
    models: Sequence[str]
    prior: Origins
    items: ItemOrigins

    def units(self, key: str) -> tuple[Unit, ...]:
        return units_of(key, self.stage, self.graph, self.models, self.prior, self.items)

    def leaves(self) -> Origins:
        units = (unit for key in self.graph.leaves for unit in self.units(key))
        return origins_of(made for unit in units for made in unit.makes)

    def documents(self, unit: Unit) -> Iterator[Document]:
        for place, made in enumerate(unit.makes):
            for key in output_keys(self.graph.steps[unit.step_key]):
                yield Document(
                    id=f"{self.stage.slug}:{unit.step_key}:{unit.number}:{place}:{key}",
                    stage=self.stage.slug,
                    step_key=unit.step_key,
                    document_key=key,
                    model=made.model,
                    lineage=made.lineage,
                    reviewer=made.reviewer,
                )


def make_stage_run(
    stage: Stage,
    models: Sequence[str] = ("a", "b", "c"),
    prior: Origins | None = None,
    items: ItemOrigins | None = None,
) -> StageRun:
    """Return a stage of a run, by default the first stage, with three models."""
    origins = entry_origins(models) if prior is None else prior
    lists = sample_items(make_dag(stage)) if items is None else items
    graph = graph_of(stage.recipe)
    return StageRun(stage=stage, graph=graph, models=models, prior=origins, items=lists)


def sample_items(dag: Dag, lengths: Lengths | None = None) -> ItemOrigins:
    """Return items for each list of a DAG; a list that `lengths` omits has up to three items."""
    lists = item_lists(dag)
    lacking = (item_list for item_list in lists.values() if item_list.name not in (lengths or {}))
    sample = {
        item_list.name: 3 if item_list.max_items is None else min(3, item_list.max_items)
        for item_list in lacking
    }
    return item_origins(lists, {**sample, **(lengths or {})})


def graphs_of(dag: Dag) -> Mapping[str, Graph]:
    return {stage.slug: graph_of(stage.recipe) for stage in dag.stages}


def stage_runs(dag: Dag, models_of: Mapping[str, Sequence[str]]) -> Mapping[str, StageRun]:
    runs: dict[str, StageRun] = {}
    stages = {stage.slug: stage for stage in dag.stages}
    for slug in TopologicalSorter({s: dag.before(s) for s in stages}).static_order():
        left = [runs[source].leaves() for source in dag.before(slug)]
        prior = merge_origins(left) if left else None
        runs[slug] = make_stage_run(stages[slug], models_of[slug], prior, sample_items(dag))
    return runs


@st.composite
def runs(draw: st.DrawFn) -> tuple[Dag, dict[str, list[str]]]:
    dag = draw(dags())
    return dag, {stage.slug: draw(models()) for stage in dag.stages}
