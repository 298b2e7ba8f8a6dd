"""Example scripts that convert runs of other systems to snapshots, which the commands read."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dag_evidence import Body
from patience import PATIENCE_SECONDS
from waybook.cli.app import app
from waybook.dag.progress.report import check
from waybook.dag.snapshots.snapshot import report_from_snapshot

EXPORTS = Path(__file__).parents[2] / "examples" / "exports"
START: Body = {"name": "__start__", "error": None, "result": {}}


def load(system: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((EXPORTS / f"{system}.json").read_text())


def statuses(system: str, export: object) -> dict[str, str]:
    convert: Callable[[object], Body]
    convert = runpy.run_path(str(EXPORTS / f"{system}_snapshot.py"))["convert"]
    report = report_from_snapshot(convert(export))
    assert check(report) == []
    (stage,) = report["stages"]
    return {step["stepKey"]: str(step["status"]) for step in stage["steps"] or ()}


@pytest.mark.parametrize(
    ("system", "expected", "edges"),
    [
        (
            "airflow",
            {
                "extract": ("completed", {"done": 1, "active": 0, "failed": 0}),
                "convert": ("in_progress", {"done": 1, "active": 2, "failed": 0}),
                "load": ("not_started", {"done": 0, "active": 0, "failed": 0}),
                "load_preview": ("completed", {"done": 1, "active": 0, "failed": 0}),
                "notify": ("not_started", {"done": 0, "active": 0, "failed": 0}),
            },
            5,
        ),
        (
            "argo",
            {
                "build": ("completed", {"done": 1, "active": 0, "failed": 0}),
                "test": ("in_progress", {"done": 1, "active": 1, "failed": 0}),
                "publish": ("not_started", {"done": 0, "active": 0, "failed": 0}),
                "announce": ("not_started", {"done": 0, "active": 0, "failed": 0}),
            },
            4,
        ),
        (
            "langgraph",
            {
                "agent": ("completed", {"done": 2, "active": 0, "failed": 0}),
                "tools": ("completed", {"done": 1, "active": 0, "failed": 0}),
                "approve": ("in_progress", {"done": 0, "active": 1, "failed": 0}),
                "send": ("not_started", {"done": 0, "active": 0, "failed": 0}),
            },
            3,
        ),
    ],
)
def test_example_script_converts_export_for_report_and_map(
    system: str, expected: dict[str, tuple[str, dict[str, int]]], edges: int
) -> None:
    files = [EXPORTS / f"{system}_snapshot.py", EXPORTS / f"{system}.json"]
    command = [sys.executable, *map(str, files)]
    converted = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    result = CliRunner().invoke(app, ["report", "-"], input=converted.stdout)
    assert result.exit_code == 0
    (stage,) = json.loads(result.stdout)["stages"]
    assert {s["stepKey"]: (s["status"], s["jobs"]) for s in stage["steps"]} == expected
    assert stage["warnings"] == ["expected documents unknown: models are not set"]
    drawn = CliRunner().invoke(app, ["map", "-", "--mermaid", "-"], input=converted.stdout)
    assert drawn.exit_code == 0
    assert drawn.stdout.count(" --> ") == edges


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (None, "not_started"),
        ("", "not_started"),
        ("queued", "in_progress"),
        ("up_for_retry", "in_progress"),
        ("success", "completed"),
        ("skipped", "completed"),
        ("upstream_failed", "failed"),
    ],
)
def test_airflow_state_determines_step_status(state: str | None, status: str) -> None:
    assert statuses("airflow", [{"task_id": "load", "state": state}]) == {"load": status}


def test_unknown_airflow_state_stops_the_conversion() -> None:
    with pytest.raises(KeyError, match="zombie"):
        statuses("airflow", [{"task_id": "load", "state": "zombie"}])


def test_argo_step_groups_and_failed_nodes_are_converted() -> None:
    export = load("argo")
    export["status"]["nodes"] = {
        "a": {"name": "wf", "type": "Steps", "phase": "Failed", "children": ["b"]},
        "b": {"name": "wf[0]", "type": "StepGroup", "phase": "Failed", "children": ["c"]},
        "c": {"name": "wf[0].lint", "type": "Pod", "phase": "Error", "children": ["d"]},
        "d": {"name": "wf[1]", "type": "StepGroup", "phase": "Omitted", "children": ["e"]},
        "e": {"name": "wf[1].ship", "type": "Skipped", "phase": "Omitted"},
    }
    export |= {"metadata": {"name": "wf"}, "spec": {}}
    assert statuses("argo", export) == {"[0].lint": "failed", "[1].ship": "completed"}


@pytest.mark.parametrize(
    ("task", "status"),
    [
        ({"error": None, "result": None}, "in_progress"),
        ({"error": "RuntimeError('x')", "result": None}, "failed"),
        ({"error": None, "result": {"n": 1}}, "completed"),
    ],
)
def test_last_langgraph_task_determines_step_status(task: Body, status: str) -> None:
    export = load("langgraph")
    export["history"][0]["tasks"] = [{"name": "approve", **task}]
    assert statuses("langgraph", export)["approve"] == status


def test_langgraph_report_covers_only_the_last_run_of_the_thread() -> None:
    export = load("langgraph")
    newest = {
        "tasks": [START],
        "metadata": {"source": "input"},
        "checkpoint": {"checkpoint_id": "c6"},
        "parent_checkpoint": {"checkpoint_id": "c5"},
    }
    export["history"].insert(0, newest)
    assert {*statuses("langgraph", export).values()} == {"not_started"}
    newest["tasks"] = []
    assert {*statuses("langgraph", export).values()} == {"completed"}
