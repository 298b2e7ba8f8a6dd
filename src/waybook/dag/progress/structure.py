"""The stages of a workflow in order, and their expected counts.

Counts that are unknown are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NotRequired, TypedDict

from waybook.dag.expansion.counts import StageCounts, expected_counts
from waybook.dag.expansion.items import NO_LENGTHS, ItemLists, Lengths, item_lists, item_origins
from waybook.dag.expansion.lineage import entry_origins, merge_origins
from waybook.dag.graph import Graph
from waybook.dag.model import Dag

#: Expected counts are computed for at most this number of lineages, to save memory.
MAX_LINEAGES = 300_000

ModelsByStage = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    dag: Dag
    graphs: Mapping[str, Graph]
    #: Stages without errors. Only their outputs can be counted.
    valid: frozenset[str]

    @property
    def slugs(self) -> frozenset[str]:
        return frozenset(stage.slug for stage in self.dag.stages)


def valid_structure(dag: Dag, graphs: Mapping[str, Graph]) -> Structure:
    return Structure(dag=dag, graphs=graphs, valid=frozenset(graphs))


def stage_order(dag: Dag) -> list[str]:
    before = {stage.slug: dag.before(stage.slug) for stage in dag.stages}
    order: dict[str, None] = {}
    while len(order) < len(before):
        ready = (s for s in before if s not in order and order.keys() >= set(before[s]))
        order[next(ready)] = None
    return list(order)


def effective_models(order: Sequence[str], models_of: ModelsByStage) -> dict[str, Sequence[str]]:
    """Return the models of each stage. A stage without models has those of the stage before.

    >>> effective_models(["a", "b", "c"], {"b": ["opus"]})
    {'b': ['opus'], 'c': ['opus']}
    """
    models_by_stage: dict[str, Sequence[str]] = {}
    last: Sequence[str] = ()
    for slug in order:
        last = models_of.get(slug) or last
        if last:
            models_by_stage[slug] = last
    return models_by_stage


def structure_counts(
    structure: Structure, models_of: ModelsByStage, lengths: Lengths = NO_LENGTHS
) -> dict[str, StageCounts]:
    """Return the expected counts of the stages, given the lengths of the lists that are known.

    Counts that depend on other lists are computed for empty and for full lists, and differ.
    """
    if not structure.valid:
        return {}
    lists = item_lists(structure.dag)
    lowest = _counts(structure, models_of, lists, lengths)
    unknown = {item_list for item_list in lists.values() if item_list.name not in lengths}
    if not unknown:
        return lowest
    full = {item_list.name: item_list.max_items or 0 for item_list in unknown}
    # A list without a limit has one item more. The counts that this changes are unbounded.
    more = {item_list.name: 1 for item_list in unknown if item_list.max_items is None}
    highest = _counts(structure, models_of, lists, {**lengths, **full})
    beyond = _counts(structure, models_of, lists, {**lengths, **full, **more}) if more else highest
    # Full lists may have too many lineages to count.
    return {
        slug: replace(counts, limits=_limits(*(by[slug].units for by in (lowest, highest, beyond))))
        for slug, counts in lowest.items()
        if slug in highest and slug in beyond
    }


def _limits(
    lowest: Mapping[str, int], highest: Mapping[str, int], beyond: Mapping[str, int]
) -> Mapping[str, int | None]:
    changed = [key for key, units in lowest.items() if beyond[key] != units]
    return {key: highest[key] if beyond[key] == highest[key] else None for key in changed}


def _counts(
    structure: Structure, models_of: ModelsByStage, lists: ItemLists, lengths: Lengths
) -> dict[str, StageCounts]:
    dag, order = structure.dag, stage_order(structure.dag)
    room = MAX_LINEAGES - sum(lengths.get(item_list.name, 0) for item_list in lists.values())
    if room < 0:
        return {}
    models, counts = effective_models(order, models_of), dict[str, StageCounts]()
    items = item_origins(lists, lengths)
    stages = {stage.slug: stage for stage in dag.stages}
    for slug in order:
        before = dag.before(slug)
        if slug not in structure.valid or slug not in models or not counts.keys() >= {*before}:
            continue
        prior = (
            merge_origins(counts[b].leaves for b in before)
            if before
            else entry_origins(models[slug])
        )
        graph = structure.graphs[slug]
        room -= len(prior.lineages) + len(graph.leaves) * len(models[slug])
        if room >= 0:
            counts[slug] = expected_counts(stages[slug], graph, models[slug], prior, items)
    return counts


class Expected(TypedDict):
    total: int | None
    steps: dict[str, int | None]
    #: Highest possible numbers of steps whose list is not known yet, but has a declared limit.
    atMost: NotRequired[dict[str, int]]


class StageMap(TypedDict):
    stageSlug: str
    order: list[str]
    roots: list[str]
    leaves: list[str]
    expected: Expected


class Map(TypedDict):
    stages: list[StageMap]
    warnings: NotRequired[list[str]]


def map_json(structure: Structure, models_of: ModelsByStage, lengths: Lengths = NO_LENGTHS) -> Map:
    counts = structure_counts(structure, models_of, lengths)
    slugs = [stage.slug for stage in structure.dag.stages]
    return {"stages": [_stage_map(s, structure.graphs.get(s), counts.get(s)) for s in slugs]}


def _stage_map(slug: str, graph: Graph | None, counts: StageCounts | None) -> StageMap:
    order = graph.order if graph else ()
    return {
        "stageSlug": slug,
        "order": list(order),
        "roots": list(graph.roots if graph else ()),
        "leaves": list(graph.leaves if graph else ()),
        "expected": _expected(order, counts),
    }


def _expected(order: Sequence[str], counts: StageCounts | None) -> Expected:
    if counts is None:
        return {"total": None, "steps": dict.fromkeys(order)}
    steps = {key: counts.jobs(key).known for key in order}
    expected: Expected = {"total": counts.total_jobs.known, "steps": steps}
    limits = {key: most for key, most in counts.limits.items() if most is not None}
    if limits:
        expected["atMost"] = limits
    return expected
