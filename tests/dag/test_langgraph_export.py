"""Adapter for LangGraph: loops, the last run of a thread, edits, and refused values."""

from typing import Any

import pytest

from dag_evidence import Body
from exported_runs import load_example, make_checkpoint, make_langgraph, make_task
from waybook.dag.progress.report import StageReport
from waybook.dag.snapshots.snapshot import read_snapshot, report_from_snapshot
from waybook.errors import InvalidInput

EDGES = [("__start__", "a"), ("a", "b"), ("b", "a"), ("a", "c"), ("c", "__end__")]
INPUT = make_checkpoint(1, "input", make_task("__start__"))


def stage_of(export: object) -> StageReport:
    (stage,) = report_from_snapshot(export)["stages"]
    return stage


def statuses(*history: Body) -> dict[str, str]:
    stage = stage_of(make_langgraph(EDGES, *history))
    return {step["stepKey"]: str(step["status"]) for step in stage["steps"] or ()}


def warnings(*history: Body) -> list[str]:
    loop = "edges back to an earlier step are left out: 'b → a'"
    found = stage_of(make_langgraph(EDGES, *history))["warnings"]
    assert loop in found
    return [warning for warning in found if warning != loop]


def test_backward_edges_of_a_langgraph_loop_are_left_out() -> None:
    (stage,) = read_snapshot(load_example("langgraph")).structure.dag.stages
    assert stage.recipe.edges == (("agent", "tools"), ("agent", "approve"), ("approve", "send"))


def test_each_execution_of_a_langgraph_node_counts_as_a_job() -> None:
    stage = stage_of(load_example("langgraph"))
    steps = {step["stepKey"]: step for step in stage["steps"] or ()}
    assert stage["stageSlug"] == "mail-17"
    assert steps["agent"]["jobs"] == {"done": 2, "active": 0, "failed": 0}
    assert steps["agent"]["startedAt"] == "2026-03-02T10:00:01+00:00"
    assert steps["agent"]["completedAt"] == "2026-03-02T10:00:09+00:00"
    assert steps["approve"]["status"] == "in_progress"
    assert steps["send"]["status"] == "not_started"


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "in_progress"),
        ({"interrupts": [{"value": "?"}]}, "in_progress"),
        ({"error": "RuntimeError('x')"}, "failed"),
        ({"result": {"n": 1}}, "completed"),
    ],
)
def test_status_of_langgraph_node_is_determined_by_the_last_task(more: Body, status: str) -> None:
    last = make_checkpoint(2, "loop", make_task("a", **more))
    assert statuses(INPUT, last) == {"a": status, "b": "not_started", "c": "not_started"}


def test_langgraph_task_with_error_is_completed_if_checkpoint_follows() -> None:
    retried = make_checkpoint(2, "loop", make_task("a", error="E"))
    last = make_checkpoint(3, "loop", make_task("c"))
    assert statuses(INPUT, retried, last)["a"] == "completed"


def test_unexecuted_nodes_of_ended_langgraph_run_count_as_skipped() -> None:
    history = [
        INPUT,
        make_checkpoint(2, "loop", make_task("a")),
        make_checkpoint(3, "loop", make_task("c")),
        make_checkpoint(4, "loop"),
    ]
    assert set(statuses(*history).values()) == {"completed"}
    assert warnings(*history) == ["1 step skipped, counted as completed: 'b'"]


def test_langgraph_report_covers_only_tasks_since_the_last_input() -> None:
    history = [
        INPUT,
        make_checkpoint(2, "loop", make_task("a")),
        make_checkpoint(3, "loop"),
        make_checkpoint(4, "input", make_task("__start__")),
        make_checkpoint(5, "loop", make_task("a")),
    ]
    assert statuses(*history)["a"] == "in_progress"


def test_tasks_of_an_abandoned_langgraph_fork_are_not_counted() -> None:
    history = [
        INPUT,
        make_checkpoint(2, "loop", make_task("a")),
        make_checkpoint(3, "loop", make_task("b", error="E")),
        make_checkpoint(4, "fork", make_task("c"), parent=2),
    ]
    assert statuses(*history) == {"a": "not_started", "b": "not_started", "c": "in_progress"}
    assert warnings(*history) == ["1 task replaced by an edit of the state, not counted"]


def test_langgraph_history_that_lacks_the_run_input_gives_a_warning() -> None:
    history = [make_checkpoint(2, "loop", make_task("a")), make_checkpoint(3, "loop")]
    assert statuses(*history) == {"a": "completed", "b": "not_started", "c": "not_started"}
    (warning,) = warnings(*history)
    assert warning.startswith("the history does not reach back to the input of the run")


def test_langgraph_export_without_history_shows_no_progress() -> None:
    alone = report_from_snapshot({"graph": make_langgraph(EDGES)["graph"]})
    assert "the file has no history, so the progress is unknown" in alone["warnings"]
    assert set(statuses().values()) == {"not_started"}


def test_langgraph_tasks_of_unknown_nodes_give_a_warning() -> None:
    history = [INPUT, make_checkpoint(2, "loop", make_task("a"), make_task("zz"))]
    (warning,) = warnings(*history)
    assert warning == "tasks of nodes that are not in the graph, not counted: 'zz'"


def test_langgraph_histories_from_library_and_api_give_equal_reports() -> None:
    export = load_example("langgraph")
    expected = report_from_snapshot(export)
    for state in export["history"]:
        state["config"] = {"configurable": state.pop("checkpoint")}
        parent = state.pop("parent_checkpoint")
        state["parent_config"] = parent and {"configurable": parent}
    assert report_from_snapshot(export) == expected


def spoil(place: list[Any], value: object) -> Body:
    export: Any = load_example("langgraph")
    container = export
    for key in place[:-1]:
        container = container[key]
    container[place[-1]] = value
    body: Body = export
    return body


@pytest.mark.parametrize(
    ("export", "message"),
    [
        (spoil(["graph", "nodes"], {}), "graph.nodes: must be a list"),
        (spoil(["graph", "nodes"], []), "graph.edges[0].source: there is no node '__start__'"),
        (spoil(["graph", "edges", 1, "target"], "x"), "graph.edges[1].target: there is no node"),
        (spoil(["history"], 1), "history: must be a list"),
        (
            spoil(["history", 2, "metadata", "source"], "magic"),
            "history[2].metadata.source: 'magic' is not a known source; known are",
        ),
        (spoil(["history", 0, "tasks", 0], "approve"), "history[0].tasks[0]: must be an object"),
        (
            spoil(["history", 0, "created_at"], "now"),
            "history[0].created_at: 'now' is not a time with a time zone",
        ),
        (
            spoil(["history", 3, "checkpoint", "thread_id"], "other"),
            "history[3]: is of another thread than the first one; export one thread",
        ),
        (
            spoil(["history", 3, "checkpoint", "checkpoint_id"], "c5"),
            "history[3]: has the id of another checkpoint",
        ),
        (
            spoil(["history", 1, "checkpoint"], None),
            "history[1].config.configurable.checkpoint_id: must be a text that is not empty",
        ),
    ],
)
def test_error_for_invalid_value_in_langgraph_export_names_the_path(
    export: Body, message: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        report_from_snapshot(export)
    assert str(refused.value).startswith(message)
    assert message.startswith(str(refused.value.details["at"]))
