"""Runs for tests: any DAG with the models of each stage, and the documents its stages make."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from hypothesis import strategies as st

from dag_builders import dags, models
from waybook.dag.expansion.inputs import Document
from waybook.dag.expansion.lineage import Origins, entry_origins, merge_origins, origins_of
from waybook.dag.expansion.units import Unit, units_of
from waybook.dag.graph import Graph, graph_of, output_keys
from waybook.dag.model import Dag, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    stage: Stage
    graph: Graph
    models: Sequence[str]
    prior: Origins

    def units(self, key: str) -> tuple[Unit, ...]:
        return units_of(key, self.stage, self.graph, self.models, self.prior)

    def leaves(self) -> Origins:
        """Return the documents the stage leaves, counted unit by unit over its leaf steps."""
        units = (unit for key in self.graph.leaves for unit in self.units(key))
        return origins_of(made for unit in units for made in unit.makes)

    def documents(self, unit: Unit) -> Iterator[Document]:
        """Yield the documents that a unit of this stage makes."""
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


def a_stage_run(
    stage: Stage, models: Sequence[str] = ("a", "b", "c"), prior: Origins | None = None
) -> StageRun:
    """Return a stage with three models by default; the first one unless origins are given."""
    origins = entry_origins(models) if prior is None else prior
    return StageRun(stage=stage, graph=graph_of(stage.recipe), models=models, prior=origins)


def graphs_of(dag: Dag) -> Mapping[str, Graph]:
    return {stage.slug: graph_of(stage.recipe) for stage in dag.stages}


def stage_runs(dag: Dag, models_of: Mapping[str, Sequence[str]]) -> Mapping[str, StageRun]:
    """Return the stages as they run in sequence, each after the documents really made before it."""
    runs: dict[str, StageRun] = {}
    stages = {stage.slug: stage for stage in dag.stages}
    for slug in TopologicalSorter({s: dag.before(s) for s in stages}).static_order():
        left = [runs[source].leaves() for source in dag.before(slug)]
        prior = merge_origins(left) if left else None
        runs[slug] = a_stage_run(stages[slug], models_of[slug], prior)
    return runs


@st.composite
def runs(draw: st.DrawFn) -> tuple[Dag, dict[str, list[str]]]:
    """Generate any DAG, with any models for each of its stages."""
    dag = draw(dags())
    return dag, {stage.slug: draw(models()) for stage in dag.stages}
