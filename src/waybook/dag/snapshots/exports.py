"""Shared code for reading runs of other systems.

A run becomes one stage, and its tasks become steps. A value that is not known is refused, with its
position in the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from waybook.dag.diagnostics import count_noun, quote_name
from waybook.dag.graph import Graph, graph_or_errors
from waybook.dag.model import Dag, JobType, Recipe, RecipeStep, Stage, Strategy
from waybook.dag.progress.overlay import Evidence
from waybook.dag.progress.report import StageEvidence
from waybook.dag.progress.structure import Structure
from waybook.dag.snapshots.model import Snapshot
from waybook.dag.snapshots.rows import Raw
from waybook.dag.statuses import ProgressStatus
from waybook.errors import InvalidInput
from waybook.json_values import rfc3339

#: Workflow definitions have the same limit.
MAX_EDGES = 100_000

MAX_NAMES_SHOWN = 5


class JobOutcome(StrEnum):
    WAITING = "waiting"
    ACTIVE = "active"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedJob:
    step: str
    outcome: JobOutcome
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    name: str
    steps: Sequence[str]
    edges: Iterable[tuple[str, str]] = ()
    jobs: Sequence[ExportedJob] | None
    warnings: Sequence[str] = ()


def invalid_at(place: str, message: str) -> InvalidInput:
    return InvalidInput(f"{place}: {message}", at=place)


def require_object(value: object, place: str) -> Raw:
    if not isinstance(value, dict):
        raise invalid_at(place, "must be an object")
    return value


def require_list(value: object, place: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise invalid_at(place, "must be a list")
    return value


def require_text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise invalid_at(place, "must be a text that is not empty")
    return value


def texts_of(value: object, place: str) -> list[str]:
    items = [] if value is None else require_list(value, place)
    return [require_text(item, f"{place}[{number}]") for number, item in enumerate(items)]


def read_time(value: object, place: str) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        time = datetime.fromisoformat(require_text(value, place))
        rfc3339(time)
    except (ValueError, OverflowError):
        time = None
    if time is None or time.tzinfo is None:
        raise invalid_at(place, f"{quote_name(value)} is not a time with a time zone")
    return time


def look_up_state(
    states: Mapping[str, JobOutcome], value: object, place: str, kind: str
) -> JobOutcome:
    if isinstance(value, str) and value in states:
        return states[value]
    known = ", ".join(state for state in states if state)
    raise invalid_at(place, f"{quote_name(value)} is not a known {kind}; known are {known}")


def list_names(names: Iterable[str]) -> str:
    """Return names for a warning. Only the first `MAX_NAMES_SHOWN` are included.

    >>> print(list_names(["b", "a"]), list_names("abcdefg"))
    'b', 'a' 'a', 'b', 'c', 'd', 'e' and 2 more
    """
    quoted = [quote_name(name) for name in names]
    more = len(quoted) - MAX_NAMES_SHOWN
    shown = ", ".join(quoted[:MAX_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def snapshot_of(run: ExportedRun, place: str) -> Snapshot:
    """Return the snapshot of a run. Errors give `place` as the position in the file.

    Raises:
        InvalidInput: the run has no tasks, or its dependencies do not form a DAG.
    """
    if not run.steps:
        raise invalid_at(place, "the run has no tasks to report on")
    edges = tuple(dict.fromkeys(run.edges))
    if len(edges) > MAX_EDGES:
        raise invalid_at(place, f"there are more than {MAX_EDGES} dependencies between the tasks")
    recipe = Recipe(tuple(map(_step, run.steps, range(1, len(run.steps) + 1))), edges)
    graph = graph_or_errors(recipe)
    if not isinstance(graph, Graph):
        raise invalid_at(place, graph[0].message)
    dag = Dag(slug=run.name, name=run.name, stages=(Stage(run.name, run.name, recipe),))
    warnings = [*run.warnings]
    evidence: dict[str, StageEvidence] = {}
    if run.jobs is not None:
        evidence[run.name] = _stage_evidence(graph, run.jobs)
        warnings += _skipped_warnings(graph, run.jobs)
    return Snapshot(
        # The number of jobs of a task is unknown, so no stage counts as valid.
        structure=Structure(dag=dag, graphs={run.name: graph}, valid=frozenset()),
        evidence=evidence,
        warnings={run.name: warnings} if evidence else {None: warnings},
    )


def _step(key: str, number: int) -> RecipeStep:
    return RecipeStep(
        key=key,
        number=number,
        name=key,
        job_type=JobType.EXECUTE,
        strategy=Strategy.ALL_TO_ONE,
        output_type=key,
    )


def _stage_evidence(graph: Graph, jobs: Iterable[ExportedJob]) -> StageEvidence:
    by_step: dict[str, list[ExportedJob]] = {key: [] for key in graph.order}
    for job in jobs:
        by_step[job.step].append(job)
    evidence = {key: _evidence(step_jobs) for key, step_jobs in by_step.items()}
    # Only the reported statuses are used, because Waybook's rules do not fit all other systems.
    return StageEvidence(
        steps=evidence, standings={key: _status(seen) for key, seen in evidence.items()}
    )


def _evidence(jobs: Sequence[ExportedJob]) -> Evidence:
    counts = dict.fromkeys(JobOutcome, 0)
    for job in jobs:
        counts[job.outcome] += 1
    waiting = counts[JobOutcome.WAITING]
    reached = len(jobs) > waiting
    # If only some executions are waiting, the task is in progress.
    active = counts[JobOutcome.ACTIVE] + (waiting if reached else 0)
    started = [job.started_at for job in jobs if job.started_at]
    ended = [job.ended_at for job in jobs if job.ended_at]
    return Evidence(
        done=counts[JobOutcome.DONE] + counts[JobOutcome.SKIPPED],
        active=active,
        failed=counts[JobOutcome.FAILED],
        started_at=rfc3339(min(started)) if started else None,
        completed_at=rfc3339(max(ended)) if ended and reached and not active else None,
    )


def _status(evidence: Evidence) -> ProgressStatus:
    if evidence.failed:
        return ProgressStatus.FAILED
    if evidence.active:
        return ProgressStatus.IN_PROGRESS
    return ProgressStatus.COMPLETED if evidence.done else ProgressStatus.NOT_STARTED


def _skipped_warnings(graph: Graph, jobs: Iterable[ExportedJob]) -> list[str]:
    skipped = {job.step for job in jobs if job.outcome is JobOutcome.SKIPPED}
    names = list_names(key for key in graph.order if key in skipped)
    count = count_noun(len(skipped), "step")
    return [f"{count} skipped, counted as completed: {names}"] if skipped else []
