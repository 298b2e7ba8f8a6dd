"""Shared code for reading runs of other systems.

For each system, a table describes the fields that are read. A value that does not fit is refused,
with its position in the file. A run becomes one stage, and its tasks become steps.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from waybook.dag.diagnostics import count_noun, quote_name
from waybook.dag.graph import Graph, graph_or_errors
from waybook.dag.model import Dag, Recipe, Stage
from waybook.dag.progress.report import StageEvidence
from waybook.dag.progress.structure import Evidence, Structure
from waybook.dag.snapshots.rows import Snapshot, bare_step
from waybook.dag.statuses import ProgressStatus
from waybook.errors import InvalidInput
from waybook.json_values import rfc3339

#: Workflow definitions have the same limit.
MAX_EDGES = 100_000
_MAX_NAMES_SHOWN = 5

Object: TypeAlias = dict[str, Any]
Edge: TypeAlias = tuple[str, str]
#: A table of fields, a list of one shape, or a function that returns what is wrong with a value.
#: A field that ends in ? may be missing; the field * describes all values of an object.
Shape: TypeAlias = "Mapping[str, Shape] | list[Shape] | Callable[[object], str | None]"


class Outcome(StrEnum):
    WAITING = "waiting"
    ACTIVE = "active"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class Job(NamedTuple):
    step: str
    outcome: Outcome
    started_at: datetime | None = None
    ended_at: datetime | None = None


def invalid_at(place: str, message: str) -> InvalidInput:
    return InvalidInput(f"{place}: {message}", at=place)


def checked(value: object, shape: Shape, place: str = "") -> Object:
    """Return a value that has this shape.

    Raises:
        InvalidInput: the value or a part of it does not fit; the error gives its position.
    """
    if callable(shape):
        if error := shape(value):
            raise invalid_at(place, error)
        return {}
    if not isinstance(value, dict if isinstance(shape, Mapping) else list):
        kind = "an object" if isinstance(shape, Mapping) else "a list"
        raise invalid_at(place or "file", f"must be {kind}")
    for name, part, part_shape in _parts(value, shape):
        checked(part, part_shape, f"{place}{name}".removeprefix("."))
    return value if isinstance(value, dict) else {}


def _parts(
    value: Any,  # noqa: ANN401 - JSON
    shape: Mapping[str, Shape] | list[Shape],
) -> Iterator[tuple[str, object, Shape]]:
    if isinstance(shape, list):
        yield from ((f"[{number}]", item, shape[0]) for number, item in enumerate(value))
    elif "*" in shape:
        yield from ((f"[{quote_name(name)}]", item, shape["*"]) for name, item in value.items())
    else:
        for field, part in shape.items():
            name = field.removesuffix("?")
            if name == field or value.get(name) is not None:
                yield f".{name}", value.get(name), part


def text(value: object) -> str | None:
    return None if isinstance(value, str) and value else "must be a text that is not empty"


def time(value: object) -> str | None:
    try:
        parse_time(value)
    except (TypeError, ValueError, OverflowError):
        return f"{quote_name(value)} is not a time with a time zone"
    return None


def one_of(kind: str, values: Iterable[str]) -> Callable[[object], str | None]:
    known = dict.fromkeys(values)

    def check(value: object) -> str | None:
        if isinstance(value, str) and value in known:
            return None
        names = ", ".join(name for name in known if name)
        return f"{quote_name(value)} is not a known {kind}; known are {names}"

    return check


def parse_time(value: object) -> datetime | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise TypeError("not a text")
    parsed = datetime.fromisoformat(value)
    rfc3339(parsed)
    if parsed.tzinfo is None:
        raise ValueError("no time zone")
    return parsed


def list_names(names: Iterable[str]) -> str:
    """Return names for a warning. Only the first `_MAX_NAMES_SHOWN` are included.

    >>> print(list_names(["b", "a"]), list_names("abcdefg"))
    'b', 'a' 'a', 'b', 'c', 'd', 'e' and 2 more
    """
    quoted = [quote_name(name) for name in names]
    more = len(quoted) - _MAX_NAMES_SHOWN
    shown = ", ".join(quoted[:_MAX_NAMES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def snapshot_of(
    name: str,
    steps: Sequence[str],
    edges: Iterable[Edge],
    jobs: Sequence[Job] | None,
    warnings: Sequence[str],
    place: str,
) -> Snapshot:
    """Return the snapshot of a run; without jobs, its progress is unknown.

    Raises:
        InvalidInput: the run has no tasks, or its dependencies do not form a DAG.
    """
    if not steps:
        raise invalid_at(place, "the run has no tasks to report on")
    edges = tuple(dict.fromkeys(edges))
    if len(edges) > MAX_EDGES:
        raise invalid_at(place, f"there are more than {MAX_EDGES} dependencies between the tasks")
    numbered = enumerate(steps, start=1)
    recipe = Recipe(tuple(bare_step(key, number) for number, key in numbered), edges)
    graph = graph_or_errors(recipe)
    if not isinstance(graph, Graph):
        raise invalid_at(place, graph[0].message)
    dag = Dag(slug=name, name=name, stages=(Stage(name, name, recipe),))
    # The number of jobs of a task is unknown, so no stage counts as valid.
    structure = Structure(dag=dag, graphs={name: graph}, valid=frozenset())
    if jobs is None:
        return Snapshot(structure=structure, evidence={}, warnings={None: warnings})
    skipped = {job.step for job in jobs if job.outcome is Outcome.SKIPPED}
    if skipped:
        names = list_names(key for key in graph.order if key in skipped)
        count = count_noun(len(skipped), "step")
        warnings = [*warnings, f"{count} skipped, counted as completed: {names}"]
    evidence = {name: _evidence(graph, jobs)}
    return Snapshot(structure=structure, evidence=evidence, warnings={name: warnings})


def _evidence(graph: Graph, jobs: Iterable[Job]) -> StageEvidence:
    by_step: dict[str, list[Job]] = {key: [] for key in graph.order}
    for job in jobs:
        by_step[job.step].append(job)
    steps: dict[str, Evidence] = {}
    standings: dict[str, ProgressStatus] = {}
    for key, own in by_step.items():
        counts = Counter(job.outcome for job in own)
        waiting, failed = counts[Outcome.WAITING], counts[Outcome.FAILED]
        done = counts[Outcome.DONE] + counts[Outcome.SKIPPED]
        # If only some executions are waiting, the task is in progress.
        active = counts[Outcome.ACTIVE] + (waiting if waiting < len(own) else 0)
        started = [job.started_at for job in own if job.started_at]
        ended = [job.ended_at for job in own if job.ended_at]
        has_ended = ended and waiting < len(own) and not active
        steps[key] = Evidence(
            done=done,
            active=active,
            failed=failed,
            started_at=rfc3339(min(started)) if started else None,
            completed_at=rfc3339(max(ended)) if has_ended else None,
        )
        # Only the reported statuses are used, because Waybook's rules do not fit all other systems.
        standings[key] = (
            ProgressStatus.FAILED
            if failed
            else ProgressStatus.IN_PROGRESS
            if active
            else ProgressStatus.COMPLETED
            if done
            else ProgressStatus.NOT_STARTED
        )
    return StageEvidence(steps=steps, standings=standings)
