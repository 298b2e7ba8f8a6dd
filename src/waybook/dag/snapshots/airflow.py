"""Reads runs of Airflow.

The file combines the answers of two Airflow APIs, for tasks and for task instances. It can also be
the output of `airflow tasks states-for-dag-run --output json`.
"""

from collections.abc import Iterator, Mapping, Sequence

from waybook.dag.diagnostics import count_noun
from waybook.dag.snapshots.exports import (
    Edge,
    Job,
    Object,
    Outcome,
    Shape,
    checked,
    invalid_at,
    list_names,
    one_of,
    parse_time,
    snapshot_of,
    text,
    time,
)
from waybook.dag.snapshots.rows import Snapshot, as_list, as_object
from waybook.errors import InvalidInput

#: A task instance that is not scheduled has the state null in the API, and an empty text on the
#: command line. Airflow also counts a task as failed if an earlier failure keeps it from running.
_STATES = {
    "": Outcome.WAITING,
    **dict.fromkeys(("scheduled", "queued", "running", "restarting"), Outcome.ACTIVE),
    **dict.fromkeys(("up_for_retry", "up_for_reschedule", "deferred"), Outcome.ACTIVE),
    "awaiting_input": Outcome.ACTIVE,
    "success": Outcome.DONE,
    "skipped": Outcome.SKIPPED,
    "failed": Outcome.FAILED,
    "upstream_failed": Outcome.FAILED,
}
REMOVED = "removed"


def map_index(value: object) -> str | None:
    is_number = type(value) is int or (isinstance(value, str) and (value or "0").isdecimal())
    return None if is_number else "must be a whole number"


EXPORT: Mapping[str, Shape] = {
    "tasks?": [{"task_id": text, "downstream_task_ids?": [text]}],
    "task_instances?": [
        {
            "task_id": text,
            "dag_id?": text,
            "map_index?": map_index,
            "state?": one_of("state of a task instance", [*_STATES, REMOVED]),
            "start_date?": time,
            "end_date?": time,
        }
    ],
}


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
    raw = checked({"task_instances": data} if isinstance(data, list) else data, EXPORT)
    if "tasks" not in raw and "task_instances" not in raw:
        raise InvalidInput("this is not an Airflow export: it has no tasks and no task_instances")
    tasks, instances = raw.get("tasks"), raw.get("task_instances")
    if not tasks and not instances:
        raise invalid_at("task_instances", "the list is empty, and the file has no tasks")
    rows: list[Object] = instances or []
    edges = list(_edges(tasks or []))
    steps = dict.fromkeys(row["task_id"] for row in (rows if tasks is None else tasks))
    jobs = None if instances is None else list(_jobs(rows, steps))
    warnings = list(_warnings(raw, steps))
    name = (rows[0].get("dag_id") if rows else None) or "dag"
    place = "task_instances" if tasks is None else "tasks"
    return snapshot_of(name, [*steps], edges, jobs, warnings, place)


def _edges(tasks: Sequence[Object]) -> Iterator[Edge]:
    known: set[str] = set()
    for number, task in enumerate(tasks):
        if task["task_id"] in known:
            message = f"the task {task['task_id']!r} is listed twice"
            raise invalid_at(f"tasks[{number}].task_id", message)
        known.add(task["task_id"])
    for number, task in enumerate(tasks):
        for target in task.get("downstream_task_ids") or ():
            if target not in known:
                place = f"tasks[{number}].downstream_task_ids"
                raise invalid_at(place, f"there is no task {target!r} in the file")
            yield task["task_id"], target


def _jobs(rows: Sequence[Object], steps: Mapping[str, None]) -> Iterator[Job]:
    seen: set[Edge] = set()
    for number, row in enumerate(rows):
        place, step = f"task_instances[{number}]", row["task_id"]
        for field in ("dag_id", "dag_run_id"):
            if row.get(field) != rows[0].get(field):
                message = "differs from the first one; export a single DAG run"
                raise invalid_at(f"{place}.{field}", message)
        index = row.get("map_index")
        instance = step, "-1" if index is None or index == "" else str(index)
        if instance in seen:
            raise invalid_at(place, f"the task instance of {step!r} is listed twice")
        seen.add(instance)
        state = row.get("state") or ""
        if state != REMOVED and step in steps:
            started, ended = parse_time(row.get("start_date")), parse_time(row.get("end_date"))
            yield Job(step, _STATES[state], started, ended)


def _warnings(raw: Object, steps: Mapping[str, None]) -> Iterator[str]:
    tasks, rows = raw.get("tasks"), raw.get("task_instances")
    if tasks is None:
        yield "the file has no tasks, so the dependencies between the steps are unknown"
    if rows is None:
        yield "the file has no task_instances, so the progress is unknown"
    total, listed = raw.get("total_entries"), max(len(tasks or ()), len(rows or ()))
    if isinstance(total, int) and total > listed:
        yield f"the file has {listed} of {total} entries: export the further pages too"
    unknown = dict.fromkeys(row["task_id"] for row in rows or () if row["task_id"] not in steps)
    if unknown:
        count = count_noun(len(unknown), "task")
        yield f"{count} with task instances are not among the tasks: {list_names(unknown)}"
    removed = dict.fromkeys(row["task_id"] for row in rows or () if row.get("state") == REMOVED)
    if removed:
        yield f"removed from the DAG before they ran, not counted: {list_names(removed)}"
