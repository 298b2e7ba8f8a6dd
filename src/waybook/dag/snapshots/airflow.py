"""Reads runs of Airflow.

The file combines the answers of two Airflow APIs, for tasks and for task instances. It can also be
the output of `airflow tasks states-for-dag-run --output json`.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from waybook.dag.diagnostics import count_noun
from waybook.dag.snapshots.exports import (
    ExportedJob,
    ExportedRun,
    JobOutcome,
    invalid_at,
    list_names,
    look_up_state,
    read_time,
    require_list,
    require_object,
    require_text,
    snapshot_of,
    texts_of,
)
from waybook.dag.snapshots.model import Snapshot
from waybook.dag.snapshots.rows import Raw, as_list, as_object
from waybook.errors import InvalidInput

REMOVED = "removed"

#: A task instance that is not scheduled has the state null in the API, and an empty text on the
#: command line.
STATES: Mapping[str, JobOutcome] = MappingProxyType(
    {
        "": JobOutcome.WAITING,
        "scheduled": JobOutcome.ACTIVE,
        "queued": JobOutcome.ACTIVE,
        "running": JobOutcome.ACTIVE,
        "restarting": JobOutcome.ACTIVE,
        "up_for_retry": JobOutcome.ACTIVE,
        "up_for_reschedule": JobOutcome.ACTIVE,
        "deferred": JobOutcome.ACTIVE,
        "awaiting_input": JobOutcome.ACTIVE,
        "success": JobOutcome.DONE,
        "skipped": JobOutcome.SKIPPED,
        "failed": JobOutcome.FAILED,
        # Airflow also counts a task as failed if an earlier failure keeps it from running.
        "upstream_failed": JobOutcome.FAILED,
    }
)


def is_airflow(data: object) -> bool:
    if isinstance(data, list):
        return bool(data) and "task_id" in as_object(data[0])
    raw = as_object(data)
    tasks = as_list(raw.get("tasks"))
    return "task_instances" in raw or any("task_id" in as_object(task) for task in tasks)


def read_airflow(data: object) -> Snapshot:
    """Return the snapshot of a DAG run.

    Raises:
        InvalidInput: the data is not an export of one DAG run, or contains an unknown state.
    """
    raw: Raw = {"task_instances": data} if isinstance(data, list) else require_object(data, "file")
    if "tasks" not in raw and "task_instances" not in raw:
        raise InvalidInput("this is not an Airflow export: it has no tasks and no task_instances")
    listed = raw.get("tasks")
    tasks = None if listed is None else _tasks(require_list(listed, "tasks"))
    rows = raw.get("task_instances")
    instances = None if rows is None else _objects(require_list(rows, "task_instances"))
    names = _names(instances or ())
    steps = list(tasks) if tasks is not None else list(dict.fromkeys(names))
    known = set(steps)
    jobs = None if instances is None else _jobs(instances, names, known)
    warnings = [*_warnings(raw, tasks, instances), *_strange_rows(instances or (), names, known)]
    edges = [] if tasks is None else list(_edges(tasks))
    run = ExportedRun(
        name=_dag_id(instances or (), tasks), steps=steps, edges=edges, jobs=jobs, warnings=warnings
    )
    return snapshot_of(run, "task_instances" if tasks is None else "tasks")


Tasks = Mapping[str, Sequence[str]]


def _objects(items: Sequence[object]) -> list[Raw]:
    return [require_object(item, f"task_instances[{n}]") for n, item in enumerate(items)]


def _tasks(items: Sequence[object]) -> Tasks:
    tasks: dict[str, Sequence[str]] = {}
    for number, item in enumerate(items):
        place = f"tasks[{number}]"
        raw = require_object(item, place)
        name = require_text(raw.get("task_id"), f"{place}.task_id")
        if name in tasks:
            raise invalid_at(f"{place}.task_id", f"the task {name!r} is listed twice")
        tasks[name] = texts_of(raw.get("downstream_task_ids"), f"{place}.downstream_task_ids")
    return tasks


def _edges(tasks: Tasks) -> Iterator[tuple[str, str]]:
    for number, (name, after) in enumerate(tasks.items()):
        for target in after:
            if target not in tasks:
                place = f"tasks[{number}].downstream_task_ids"
                raise invalid_at(place, f"there is no task {target!r} in the file")
            yield name, target


def _names(instances: Sequence[Raw]) -> list[str]:
    return [
        require_text(raw.get("task_id"), f"task_instances[{number}].task_id")
        for number, raw in enumerate(instances)
    ]


def _jobs(instances: Sequence[Raw], names: Sequence[str], known: set[str]) -> list[ExportedJob]:
    jobs = []
    seen: set[tuple[str, object]] = set()
    for number, (raw, name) in enumerate(zip(instances, names, strict=True)):
        place = f"task_instances[{number}]"
        index = _map_index(raw.get("map_index"), f"{place}.map_index")
        if (name, index) in seen:
            raise invalid_at(place, f"the task instance of {name!r} is listed twice")
        seen.add((name, index))
        if raw.get("state") == REMOVED or name not in known:
            continue
        state = "" if raw.get("state") is None else raw["state"]
        jobs.append(
            ExportedJob(
                step=name,
                outcome=look_up_state(STATES, state, f"{place}.state", "state of a task instance"),
                started_at=read_time(raw.get("start_date"), f"{place}.start_date"),
                ended_at=read_time(raw.get("end_date"), f"{place}.end_date"),
            )
        )
    return jobs


def _map_index(value: object, place: str) -> int:
    """Return the index of an instance of a mapped task, or -1 if the task is not mapped."""
    if value is None or value == "":
        return -1
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:  # noqa: PLR2004 - digits
        return int(value)
    if type(value) is not int:
        raise invalid_at(place, "must be a whole number")
    return value


def _dag_id(instances: Sequence[Raw], tasks: Tasks | None) -> str:
    for field in ("dag_id", "dag_run_id"):
        first = instances[0].get(field) if instances else None
        for number, raw in enumerate(instances):
            if raw.get(field) != first:
                place = f"task_instances[{number}].{field}"
                raise invalid_at(place, "differs from the first one; export a single DAG run")
    if not instances and not tasks:
        raise InvalidInput(
            "task_instances: the list is empty, and the file has no tasks", at="task_instances"
        )
    named = instances[0].get("dag_id") if instances else None
    return "dag" if named is None else require_text(named, "task_instances[0].dag_id")


def _warnings(raw: Raw, tasks: Tasks | None, instances: Sequence[Raw] | None) -> Iterator[str]:
    if tasks is None:
        yield "the file has no tasks, so the dependencies between the steps are unknown"
    if instances is None:
        yield "the file has no task_instances, so the progress is unknown"
    total, listed = raw.get("total_entries"), max(len(tasks or ()), len(instances or ()))
    if isinstance(total, int) and total > listed:
        yield f"the file has {listed} of {total} entries: export the further pages too"


def _strange_rows(instances: Sequence[Raw], names: Sequence[str], known: set[str]) -> Iterator[str]:
    unknown = dict.fromkeys(name for name in names if name not in known)
    if unknown:
        count = count_noun(len(unknown), "task")
        yield f"{count} with task instances are not among the tasks: {list_names(unknown)}"
    removed = dict.fromkeys(
        name for raw, name in zip(instances, names, strict=True) if raw.get("state") == REMOVED
    )
    if removed:
        yield f"removed from the DAG before they ran, not counted: {list_names(removed)}"
