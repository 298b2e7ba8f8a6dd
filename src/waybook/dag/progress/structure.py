"""The stages of a workflow in order, their expected numbers of jobs, and the status of their steps.

Unknown numbers are left out. The status of a step follows from its jobs and its position in the
graph. A step with unfinished or failed jobs is not completed. Any other step is completed when one
of its jobs is completed or a later step has started.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, NotRequired, TypeAlias, TypedDict

from waybook.dag.diagnostics import count_noun, quote_name
from waybook.dag.expansion.inputs import StageCounts, expected_counts
from waybook.dag.expansion.units import (
    NO_LENGTHS,
    ItemLists,
    Lengths,
    entry_origins,
    item_lists,
    item_origins,
    merge_origins,
)
from waybook.dag.graph import Graph
from waybook.dag.model import FAILED_JOB, Dag, JobStatus, JobType, ProgressStatus

#: Maximum number of lineages for which expected counts are computed, to save memory.
MAX_LINEAGES = 300_000

_ModelsByStage = Mapping[str, Sequence[str]]


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


def effective_models(order: Sequence[str], models_of: _ModelsByStage) -> dict[str, Sequence[str]]:
    """Return the models of each stage. A stage without models inherits those of the stage before.

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
    structure: Structure, models_of: _ModelsByStage, lengths: Lengths = NO_LENGTHS
) -> dict[str, StageCounts]:
    """Return the expected numbers of jobs and outputs, given the known lengths of lists.

    Numbers that depend on a list of unknown length are computed for an empty and for a full list.
    The results are the minimum and the maximum.
    """
    if not structure.valid:
        return {}
    lists = item_lists(structure.dag)
    lowest = _counts(structure, models_of, lists, lengths)
    unknown = {item_list for item_list in lists.values() if item_list.name not in lengths}
    if not unknown:
        return lowest
    full = {item_list.name: item_list.max_items or 0 for item_list in unknown}
    # Add one item to each list without a limit. Counts that then change have no maximum.
    more = {item_list.name: 1 for item_list in unknown if item_list.max_items is None}
    highest = _counts(structure, models_of, lists, {**lengths, **full})
    beyond = _counts(structure, models_of, lists, {**lengths, **full, **more}) if more else highest
    # Leave out stages whose full lists have too many lineages to count.
    counted: dict[str, StageCounts] = {}
    for slug in lowest:
        if slug not in highest or slug not in beyond:
            continue
        least, most, over = (counts[slug].units for counts in (lowest, highest, beyond))
        changed = [key for key, units in least.items() if over[key] != units]
        limits = {key: most[key] if over[key] == most[key] else None for key in changed}
        counted[slug] = replace(lowest[slug], limits=limits)
    return counted


def _counts(
    structure: Structure, models_of: _ModelsByStage, lists: ItemLists, lengths: Lengths
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
    #: Maximum number of jobs of each step whose list is not known yet but has a declared limit.
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


def map_json(structure: Structure, models_of: _ModelsByStage, lengths: Lengths = NO_LENGTHS) -> Map:
    counts = structure_counts(structure, models_of, lengths)
    slugs = [stage.slug for stage in structure.dag.stages]
    return {"stages": [_stage_map(s, structure.graphs.get(s), counts.get(s)) for s in slugs]}


def _stage_map(slug: str, graph: Graph | None, counts: StageCounts | None) -> StageMap:
    order = list(graph.order) if graph else []
    expected: Expected = {"total": None, "steps": dict.fromkeys(order)}
    if counts is not None:
        steps = {key: counts.jobs(key).known for key in order}
        expected = {"total": counts.total_jobs.known, "steps": steps}
        if limits := {key: most for key, most in counts.limits.items() if most is not None}:
            expected["atMost"] = limits
    return {
        "stageSlug": slug,
        "order": order,
        "roots": list(graph.roots if graph else ()),
        "leaves": list(graph.leaves if graph else ()),
        "expected": expected,
    }


class Evidence(NamedTuple):
    """Numbers of jobs of a step by status, and whether the step is closed."""

    closed: bool = False
    done: int = 0
    active: int = 0
    failed: int = 0
    started_at: str | None = None
    completed_at: str | None = None

    @property
    def is_reached(self) -> bool:
        return self.closed or bool(self.done or self.active or self.failed)


NO_EVIDENCE = Evidence()

JobEvidence: TypeAlias = tuple[str | None, str, str]


DONE, ACTIVE, FAILED, IGNORED = range(4)
COUNTED: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(JobStatus, ACTIVE),
        **dict.fromkeys(FAILED_JOB, FAILED),
        JobStatus.COMPLETED: DONE,
        JobStatus.SUPERSEDED: IGNORED,
    }
)


def evidence_of(
    jobs: Iterable[JobEvidence], closed: Collection[str] = ()
) -> tuple[dict[str, Evidence], list[str]]:
    """Count the jobs of each step by status, and return warnings.

    RENDER jobs and superseded jobs are ignored. A job with an unknown status counts as unfinished.
    """
    counts = {step: [0, 0, 0, 0] for step in closed}
    warnings: list[str] = []
    render = JobType.RENDER
    for (step, kind, status), many in Counter(jobs).items():
        if step is None or kind == render:
            continue
        if status not in COUNTED:
            unknown = (
                f"in the unknown status {quote_name(status)}" if status else "without a status"
            )
            jobs_text = f"{count_noun(many, 'job')} {unknown}, counted as unfinished"
            warnings.append(f"step {quote_name(step)}: {jobs_text}")
        if step not in counts:
            counts[step] = [0, 0, 0, 0]
        counts[step][COUNTED.get(status, ACTIVE)] += many
    final = frozenset(closed)
    evidence = {
        step: Evidence(step in final, done, active, failed)
        for step, (done, active, failed, _) in counts.items()
    }
    return evidence, warnings


def overlay(graph: Graph, evidence: Mapping[str, Evidence]) -> dict[str, ProgressStatus]:
    passed: set[str] = set()
    for key in reversed(graph.order):
        if key in passed or evidence.get(key, NO_EVIDENCE).is_reached:
            passed.update(graph.predecessors[key])
    standings: dict[str, ProgressStatus] = {}
    for key in graph.order:
        seen = evidence.get(key, NO_EVIDENCE)
        before = [standings[source] for source in graph.predecessors[key]]
        if seen.closed:
            standing = ProgressStatus.COMPLETED
        elif seen.failed:
            standing = ProgressStatus.FAILED
        elif seen.active:
            standing = ProgressStatus.IN_PROGRESS
        elif (
            seen.done
            or key in passed
            or (graph.steps[key].skip and {*before} <= {ProgressStatus.COMPLETED})
        ):
            standing = ProgressStatus.COMPLETED
        else:
            standing = ProgressStatus.NOT_STARTED
        standings[key] = standing
    return standings


def stage_status(standings: Collection[ProgressStatus]) -> ProgressStatus:
    """Return the status of a stage from the statuses of its steps.

    >>> stage_status([ProgressStatus.COMPLETED, ProgressStatus.IN_PROGRESS, ProgressStatus.FAILED])
    <ProgressStatus.FAILED: 'failed'>
    >>> stage_status([])
    <ProgressStatus.NOT_STARTED: 'not_started'>
    """
    present = set(standings)
    if ProgressStatus.FAILED in present:
        return ProgressStatus.FAILED
    if present == {ProgressStatus.COMPLETED}:
        return ProgressStatus.COMPLETED
    return (
        ProgressStatus.IN_PROGRESS
        if present - {ProgressStatus.NOT_STARTED}
        else ProgressStatus.NOT_STARTED
    )
