"""Computes how many jobs and outputs each step will have, before any work begins.

The code calls the work of one job a unit. The module `units` creates exactly as many units as are
counted here. Lineages (chains of documents that continue each other) are listed only for the last
steps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from waybook.dag.expansion.granularity import (
    GRANULARITY,
    Descent,
    Worker,
    fans_out,
    first_of,
    lineage_owners,
    unit_count,
)
from waybook.dag.expansion.lineage import (
    Origins,
    distinct,
    lineage_name,
    merge_origins,
    single_author_origins,
)
from waybook.dag.graph import Graph, output_keys, primary_source
from waybook.dag.model import JobType, RecipeStep, Stage, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCounts:
    units: Mapping[str, int]
    outputs: Mapping[str, int]
    total: int
    #: Lineages (chains of documents) and authors of the final outputs, which the next stage
    #: continues.
    leaves: Origins


def expected_counts(
    stage: Stage, graph: Graph, models: Sequence[str], prior: Origins
) -> StageCounts:
    models = distinct(models)
    units: dict[str, int] = {}
    outputs: dict[str, int] = {}
    unit_counts: dict[Strategy, int] = {}
    begun_by: dict[str, str] = {}
    for key in graph.order:
        step = graph.steps[key]
        source = primary_source(step, stage.slug, graph)
        if step.skip:
            units[key] = outputs[key] = 0
        elif source is not None:
            units[key] = outputs[key] = outputs[source]
        else:
            if step.strategy not in unit_counts:
                unit_counts[step.strategy] = unit_count(step.strategy, models, prior)
            units[key] = unit_counts[step.strategy]
            outputs[key] = len(models) if fans_out(step, graph) else units[key]
        begun_by[key] = key if source is None else begun_by[source]
    fruitful = dict.fromkeys(begun_by[key] for key in graph.leaves if outputs[key])
    left = _begun(stage.slug, graph, [graph.steps[key] for key in fruitful], models, prior)
    return StageCounts(
        units=units, outputs=outputs, total=sum(units.values()), leaves=merge_origins(left)
    )


def _begun(
    stage: str, graph: Graph, steps: Iterable[RecipeStep], models: Sequence[str], prior: Origins
) -> Iterable[Origins]:
    strategies: set[Strategy] = set()
    for step in steps:
        if GRANULARITY[step.strategy].descent is Descent.NEW:
            yield _new(stage, step, models, one_each=_one_each(step, graph))
        elif step.strategy not in strategies:
            strategies.add(step.strategy)
            yield _inherit_origins(step.strategy, models, prior)


def _one_each(step: RecipeStep, graph: Graph) -> bool:
    return GRANULARITY[step.strategy].worker is Worker.EACH or fans_out(step, graph)


def _new(stage: str, step: RecipeStep, models: Sequence[str], *, one_each: bool) -> Origins:
    if one_each:
        return single_author_origins(
            {lineage_name(stage, step.key, model): model for model in models}
        )
    return single_author_origins({lineage_name(stage, step.key): first_of(models)})


def _inherit_origins(strategy: Strategy, models: Sequence[str], prior: Origins) -> Origins:
    if GRANULARITY[strategy].worker is Worker.AUTHOR:
        return single_author_origins(lineage_owners(models, prior))
    return Origins(
        lineages=prior.lineages,
        authors=tuple(models),
        first_author=dict.fromkeys(prior.lineages, first_of(models)),
    )


def rendered_keys(stage: Stage) -> Mapping[str, frozenset[str]]:
    """Return the keys of the documents for people to read, by step.

    These are the outputs with a template. If there are no templates, they are all outputs of
    EXECUTE steps.
    """
    steps = stage.recipe.steps
    if any(output.render for step in steps for output in step.outputs):
        return {
            step.key: frozenset(output.document_key for output in step.outputs if output.render)
            for step in steps
        }
    return {
        step.key: frozenset(output_keys(step)) for step in steps if step.job_type is JobType.EXECUTE
    }


def documents_expected(stage: Stage, counts: StageCounts) -> int:
    return sum(len(keys) * counts.outputs[key] for key, keys in rendered_keys(stage).items())
