"""Adapter for Airflow: states, mapped tasks, incomplete files and refused values."""

import pytest

from dag_evidence import Body
from exported_runs import load_example, make_airflow, make_instance
from waybook.dag.progress.report import Report, StageReport
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import InvalidInput

CHAIN = {"extract": ["load"], "load": []}


def stage_of(report: Report) -> StageReport:
    (stage,) = report["stages"]
    return stage


def statuses(export: object) -> dict[str, str]:
    stage = stage_of(report_from_snapshot(export))
    return {step["stepKey"]: str(step["status"]) for step in stage["steps"] or ()}


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (None, "not_started"),
        ("", "not_started"),
        ("scheduled", "in_progress"),
        ("queued", "in_progress"),
        ("running", "in_progress"),
        ("up_for_retry", "in_progress"),
        ("deferred", "in_progress"),
        ("awaiting_input", "in_progress"),
        ("success", "completed"),
        ("skipped", "completed"),
        ("failed", "failed"),
        ("upstream_failed", "failed"),
        ("removed", "not_started"),
    ],
)
def test_airflow_state_determines_step_status(state: str | None, status: str) -> None:
    assert statuses(make_airflow({"load": []}, make_instance("load", state))) == {"load": status}


def test_waiting_airflow_task_is_not_started_despite_started_successor() -> None:
    export = make_airflow(CHAIN, make_instance("extract", None), make_instance("load", "running"))
    assert statuses(export) == {"extract": "not_started", "load": "in_progress"}


def test_airflow_mapped_task_with_waiting_instances_is_shown_in_progress() -> None:
    stage = stage_of(report_from_snapshot(load_example("airflow")))
    steps = {step["stepKey"]: step for step in stage["steps"] or ()}
    assert steps["convert"]["status"] == "in_progress"
    assert steps["convert"]["jobs"] == {"done": 1, "active": 2, "failed": 0}
    assert steps["convert"]["startedAt"] == "2026-03-02T01:02:12+00:00"
    assert steps["convert"]["completedAt"] is None
    assert steps["extract"]["completedAt"] == "2026-03-02T01:02:10+00:00"
    assert stage["warnings"] == ["1 step skipped, counted as completed: 'load_preview'"]


def test_airflow_export_without_task_list_gives_steps_without_edges() -> None:
    rows = [
        {"dag_id": "d", "task_id": "a", "state": "success", "map_index": "", "start_date": ""},
        {"dag_id": "d", "task_id": "b", "state": "running", "map_index": "0"},
        {"dag_id": "d", "task_id": "b", "state": "", "map_index": "1"},
    ]
    assert statuses(rows) == {"a": "completed", "b": "in_progress"}
    (stage,) = map_from_snapshot(rows)["stages"]
    assert stage["roots"] == stage["leaves"] == ["a", "b"]
    (warning,) = stage_of(report_from_snapshot(rows))["warnings"]
    assert warning == "the file has no tasks, so the dependencies between the steps are unknown"


def test_airflow_export_without_task_instances_shows_no_progress() -> None:
    export = {"tasks": make_airflow(CHAIN)["tasks"]}
    report = report_from_snapshot(export)
    assert stage_of(report)["status"] == "not_started"
    assert report["warnings"] == ["the file has no task_instances, so the progress is unknown"]
    assert map_from_snapshot(export)["stages"][0]["order"] == ["extract", "load"]


def test_airflow_export_with_missing_pages_or_unknown_tasks_gives_warnings() -> None:
    export = make_airflow(
        CHAIN, make_instance("extract", "success"), make_instance("old", "failed")
    )
    warnings = stage_of(report_from_snapshot({**export, "total_entries": 250}))["warnings"]
    assert warnings == [
        "1 task with task instances are not among the tasks: 'old'",
        "the file has 2 of 250 entries: export the further pages too",
    ]
    assert statuses(export) == {"extract": "completed", "load": "not_started"}


@pytest.mark.parametrize(
    ("export", "message"),
    [
        ({"tasks": 5, "task_instances": []}, "tasks: must be a list"),
        ({"tasks": [7], "task_instances": []}, "tasks[0]: must be an object"),
        (make_airflow({"": []}), "tasks[0].task_id: must be a text that is not empty"),
        (make_airflow({"a": ["b"]}), "tasks[0].downstream_task_ids: there is no task 'b'"),
        (make_airflow({"a": ["b"], "b": ["a"]}), "tasks: the steps form a cycle"),
        (
            make_airflow(CHAIN, make_instance("load", "zombie")),
            "task_instances[0].state: 'zombie' is not a known state of a task instance; known are",
        ),
        (
            make_airflow(CHAIN, make_instance("load", "failed", start_date="yesterday")),
            "task_instances[0].start_date: 'yesterday' is not a time with a time zone",
        ),
        (
            make_airflow(CHAIN, make_instance("load", "failed", start_date="2026-03-02T01:00:00")),
            "task_instances[0].start_date: '2026-03-02T01:00:00' is not a time with a time zone",
        ),
        (
            make_airflow(CHAIN, make_instance("load", None), make_instance("load", "failed")),
            "task_instances[1]: the task instance of 'load' is listed twice",
        ),
        (
            make_airflow(
                CHAIN, make_instance("load", None), make_instance("extract", None, dag_run_id="r2")
            ),
            "task_instances[1].dag_run_id: differs from the first one; export a single DAG run",
        ),
        (
            {"tasks": [], "task_instances": []},
            "task_instances: the list is empty, and the file has no tasks",
        ),
    ],
)
def test_error_for_invalid_value_in_airflow_export_names_the_path(
    export: Body, message: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        report_from_snapshot(export)
    assert str(refused.value).startswith(message)
    assert message.startswith(str(refused.value.details["at"]))
