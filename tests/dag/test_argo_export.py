"""Adapter for Argo Workflows: groups, loops, retries, unstarted steps, and refused values."""

from typing import Any

import pytest

from dag_evidence import Body
from exported_runs import load_example, make_argo, make_node
from waybook.dag.progress.report import StageReport
from waybook.dag.snapshots.snapshot import map_from_snapshot, read_snapshot, report_from_snapshot
from waybook.errors import InvalidInput


def stage_of(export: object) -> StageReport:
    (stage,) = report_from_snapshot(export)["stages"]
    return stage


def statuses(export: object) -> dict[str, str]:
    return {step["stepKey"]: str(step["status"]) for step in stage_of(export)["steps"] or ()}


def edges_of(export: object) -> set[tuple[str, str]]:
    (stage,) = read_snapshot(export).structure.dag.stages
    return {*stage.recipe.edges}


def make_child(name: str, kind: str, phase: str | None, *children: str, **more: Any) -> Body:  # noqa: ANN401 - JSON
    return make_node(name, kind, phase, *children, **{"boundaryID": "wf", **more})


@pytest.mark.parametrize(
    ("phase", "status"),
    [
        ("Pending", "in_progress"),
        ("Running", "in_progress"),
        ("Succeeded", "completed"),
        ("Skipped", "completed"),
        ("Omitted", "completed"),
        ("Failed", "failed"),
        ("Error", "failed"),
    ],
)
def test_argo_phase_determines_step_status(phase: str, status: str) -> None:
    assert statuses(make_argo(make_node("wf", "Pod", phase))) == {"wf": status}


def test_items_and_retries_of_argo_task_are_a_single_step() -> None:
    export = load_example("argo")
    steps = {step["stepKey"]: step for step in stage_of(export)["steps"] or ()}
    assert steps["build"]["jobs"] == {"done": 1, "active": 0, "failed": 0}
    assert steps["build"]["completedAt"] == "2026-03-02T09:04:00+00:00"
    assert steps["test"]["jobs"] == {"done": 1, "active": 1, "failed": 0}
    assert stage_of(export)["warnings"] == []


def test_argo_tasks_without_a_node_are_shown_as_not_started() -> None:
    export = load_example("argo")
    assert statuses(export) == {
        "build": "completed",
        "test": "in_progress",
        "publish": "not_started",
        "announce": "not_started",
    }
    assert edges_of(export) == {
        ("build", "test"),
        ("build", "publish"),
        ("test", "publish"),
        ("publish", "announce"),
    }


def test_argo_step_depends_on_steps_of_the_preceding_group() -> None:
    export = make_argo(
        make_node("wf", "Steps", "Running", "wf[0]"),
        make_child("wf[0]", "StepGroup", "Succeeded", "wf[0].a(0:x)", "wf[0].a(1:y)"),
        make_child("wf[0].a(0:x)", "Pod", "Succeeded", "wf[1]"),
        make_child("wf[0].a(1:y)", "Pod", "Succeeded", "wf[1]"),
        make_child("wf[1]", "StepGroup", "Running", "wf[1].sub"),
        make_child("wf[1].sub", "DAG", "Running", "wf[1].sub.b"),
        make_child("wf[1].sub.b", "Pod", "Running", boundaryID="wf[1].sub"),
    )
    assert statuses(export) == {"[0].a": "completed", "[1].sub.b": "in_progress"}
    assert edges_of(export) == {("[0].a", "[1].sub.b")}


def test_later_argo_step_groups_are_shown_as_not_started() -> None:
    steps = [[{"name": "a"}], [{"name": "b"}, {"name": "c"}]]
    export = make_argo(
        make_node("wf", "Steps", "Running", "wf[0]", templateName="main"),
        make_child("wf[0]", "StepGroup", "Running", "wf[0].a"),
        make_child("wf[0].a", "Pod", "Running"),
        spec={"entrypoint": "main", "templates": [{"name": "main", "steps": steps}]},
    )
    assert statuses(export) == {
        "[0].a": "in_progress",
        "[1].b": "not_started",
        "[1].c": "not_started",
    }
    assert edges_of(export) == {("[0].a", "[1].b"), ("[0].a", "[1].c")}


def test_argo_workflow_without_nodes_shows_the_steps_of_the_entrypoint() -> None:
    tasks = [{"name": "a"}, {"name": "b", "depends": "a.Succeeded || a.Skipped"}]
    spec = {
        "entrypoint": "main",
        "onExit": "clean",
        "templates": [{"name": "main", "dag": {"tasks": tasks}}],
    }
    export = make_argo(phase="Pending", spec=spec)
    assert statuses(export) == dict.fromkeys(["a", "b", "onExit"], "not_started")
    assert edges_of(export) == {("a", "b"), ("b", "onExit")}


def test_argo_step_uses_a_template_stored_by_another_resource() -> None:
    export = make_argo(
        make_node("wf", "DAG", "Running", "wf.a", templateRef={"name": "lib", "template": "main"}),
        make_child("wf.a", "Pod", "Succeeded"),
    )
    template = {"dag": {"tasks": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}}
    export["status"]["storedTemplates"] = {"namespaced/lib/main": template}
    assert statuses(export) == {"a": "completed", "b": "not_started"}


def test_argo_export_with_missing_template_or_child_node_causes_warnings() -> None:
    export = make_argo(
        make_node("wf", "DAG", "Running", "wf.a", "wf.gone", templateName="lost"),
        make_child("wf.a", "Pod", "Succeeded"),
    )
    assert stage_of(export)["warnings"] == [
        "1 node not in the file, but named as a child: 'wf.gone'",
        "the steps to come are unknown, as the template is missing: 'wf'",
        "the workflow is Running, although each step in the file has ended",
    ]


def test_failed_argo_workflow_without_failed_step_gives_warning() -> None:
    export = make_argo(make_node("wf", "Pod", "Succeeded"), phase="Failed")
    export["status"]["message"] = "exceeded its deadline"
    (warning,) = stage_of(export)["warnings"]
    assert warning.endswith("although no step in the file failed: 'exceeded its deadline'")


def test_retried_argo_dag_is_shown_as_the_steps_inside() -> None:
    export = make_argo(
        make_node("wf", "Retry", "Running", "wf(0)"),
        make_node("wf(0)", "DAG", "Running", "wf(0).a"),
        make_node("wf(0).a", "Pod", "Running", boundaryID="wf(0)"),
    )
    assert statuses(export) == {"(0).a": "in_progress"}


def test_hook_of_an_argo_task_is_a_separate_step() -> None:
    export = make_argo(
        make_node("wf", "DAG", "Succeeded", "wf.a(0:x.y)"),
        make_child("wf.a(0:x.y)", "Pod", "Succeeded", "wf.a(0:x.y).hooks.done"),
        make_child("wf.a(0:x.y).hooks.done", "Pod", "Succeeded"),
        phase="Succeeded",
    )
    assert list(statuses(export)) == ["a", "a(0:x.y).hooks.done"]


def test_argo_export_with_too_many_edges_is_refused() -> None:
    names = [f"wf[0].s{number}" for number in range(400)]
    after = [f"wf[1].s{number}" for number in range(400)]
    export = make_argo(
        *(make_child(name, "Pod", "Succeeded", "wf[1]") for name in names),
        make_child("wf[1]", "StepGroup", "Running", *after),
        *(make_child(name, "Pod", "Running") for name in after),
    )
    with pytest.raises(InvalidInput, match="more than 100000 dependencies"):
        map_from_snapshot(export)


LOOP = make_argo(
    make_node("wf", "DAG", "Running", "wf.g"), make_node("wf.g", "StepGroup", "Running", "wf")
)
CYCLE = make_argo(make_node("a", "Pod", "Running", "b"), make_node("b", "Pod", "Running", "a"))


@pytest.mark.parametrize(
    ("export", "message"),
    [
        (
            make_argo(make_node("wf", "Pod", "Lost")),
            "status.nodes['wf'].phase: 'Lost' is not a known",
        ),
        (make_argo(make_node("wf", "Pod", None)), "status.nodes['wf'].phase: None is not a known"),
        (make_argo(make_node("wf", "Job", "Running")), "status.nodes['wf'].type: 'Job' is no"),
        (make_argo(phase="Odd"), "status.phase: 'Odd' is not a known workflow phase; known are"),
        ({**make_argo(), "kind": "List"}, "items: this is a list; export one workflow: kubectl"),
        ({**make_argo(), "metadata": {}}, "metadata.name: must be a text"),
        (
            {**make_argo(), "status": {"compressedNodes": "H4sI"}},
            "status.compressedNodes: the nodes are compressed; export the workflow with: argo get",
        ),
        (
            make_argo(make_node("wf", "StepGroup", "Running")),
            "status.nodes: the run has no tasks to report on",
        ),
        (LOOP, "status.nodes['wf'].children: the nodes lead back to themselves"),
        (CYCLE, "status.nodes: the steps form a cycle: b → a → b"),
    ],
)
def test_error_for_invalid_value_in_argo_export_names_the_path(export: Body, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        report_from_snapshot(export)
    assert str(refused.value).startswith(message)
    assert message.startswith(str(refused.value.details["at"]))
