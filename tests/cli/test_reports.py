"""`waybook report` and `map`, which read snapshots of any system and need no database."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from dag_builders import make_chain, make_dag, make_stage, make_step
from dag_evidence import Body, make_job, make_snapshot
from patience import PATIENCE_SECONDS
from report_invariants import check
from waybook.cli.app import app
from waybook.cli.commands import snapshots
from waybook.cli.terminal import workflow_views
from waybook.dag.definitions.definition import write_definition
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot

EXAMPLES = Path(__file__).parents[2] / "examples"
DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write")),
    make_stage("antithesis"),
)
SNAPSHOT = make_snapshot(
    DAG,
    make_job("thesis", "plan", "completed"),
    make_job("thesis", "write", "paused"),
    runs={"thesis": ["alpha", "beta"]},
)
NO_SNAPSHOT: Body = {"jobs": []}


def run(*words: str, typed: object = None) -> Result:
    """Run a command with the input `typed`: a string as it is, any other value as JSON."""
    text = typed if isinstance(typed, str) else json.dumps(typed)
    return CliRunner().invoke(app, words, input=text)


def make_cycle() -> Body:
    definition: Body = write_definition(DAG)
    definition["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    return definition


# Tests of the JSON output.


@pytest.mark.parametrize(
    ("command", "door"), [("report", report_from_snapshot), ("map", map_from_snapshot)]
)
def test_report_and_map_commands_print_one_json_line_without_terminal(
    command: str,
    door: Any,  # noqa: ANN401 - one of two functions
) -> None:
    for flags in ([], ["--json"]):
        result = run(command, "-", *flags, typed=SNAPSHOT)
        assert (result.exit_code, json.loads(result.stdout)) == (0, door(SNAPSHOT))
        assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("command", ["report", "map"])
@pytest.mark.parametrize("typed", [NO_SNAPSHOT, [], "{", "", "\ud83d", '{"dag": NaN}'])
def test_report_and_map_commands_print_json_error_for_invalid_input(
    command: str, typed: object
) -> None:
    refused = CliRunner().invoke(
        app,
        [command, "-"],
        input=typed.encode(errors="surrogatepass") if isinstance(typed, str) else json.dumps(typed),
    )
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["error"]["code"] in {"INVALID_INPUT", "BAD_RECIPE"}


def test_report_command_reports_invalid_lines_and_answers_later_lines() -> None:
    lines = [json.dumps(SNAPSHOT), json.dumps(NO_SNAPSHOT), "", "{", json.dumps(SNAPSHOT)]
    result = run("report", "--lines", "-", typed="\r\n".join(lines))
    assert result.exit_code == 0
    first, *errors, last = map(json.loads, result.stdout.splitlines())
    assert first == last == report_from_snapshot(SNAPSHOT)
    assert check(first) == []
    assert [error["error"]["code"] for error in errors] == ["INVALID_INPUT"] * 3


def test_map_command_with_lines_option_answers_each_input_line() -> None:
    lines = [write_definition(DAG), make_cycle(), SNAPSHOT]
    result = run("map", "--lines", "--models", "3", "-", typed="\n".join(map(json.dumps, lines)))
    bare, refused, own = map(json.loads, result.stdout.splitlines())
    assert [stage["expected"]["total"] for stage in bare["stages"]] == [6, 3]
    assert refused["error"]["code"] == "BAD_RECIPE"
    assert [stage["expected"]["total"] for stage in own["stages"]] == [4, 2]


def test_report_command_answers_each_line_before_the_next_is_written() -> None:
    command = [str(Path(sys.executable).parent / "waybook"), "report", "--lines", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        for _ in range(2):
            process.stdin.write(json.dumps(SNAPSHOT) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == report_from_snapshot(SNAPSHOT)
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize(
    ("models", "total"), [("3", 6), ("alpha,beta", 4), ("alpha", 2), ("alpha, alpha", 2)]
)
def test_models_option_of_map_command_is_a_number_or_names(models: str, total: int) -> None:
    result = run("map", "--models", models, "-", typed=write_definition(DAG))
    assert json.loads(result.stdout)["stages"][0]["expected"]["total"] == total


@pytest.mark.parametrize("models", ["0", "1001", "a,,b", ","])
def test_map_command_with_invalid_models_is_a_usage_error(models: str) -> None:
    assert run("map", "--models", models, "-", typed=write_definition(DAG)).exit_code == 2


def test_report_of_example_snapshot_has_no_warnings() -> None:
    reply = json.loads(run("report", str(EXAMPLES / "snapshot.json")).stdout)
    assert (
        reply["warnings"] == [warning for s in reply["stages"] for warning in s["warnings"]] == []
    )


@pytest.mark.parametrize("file", ["no-such-file.json", "."])
def test_report_command_with_unreadable_file_is_a_usage_error(file: str) -> None:
    failed = run("report", file)
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert file in failed.stderr


# Tests of the terminal output.


@pytest.fixture
def _at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "is_interactive", lambda *, as_json: not as_json)


@pytest.mark.usefixtures("_at_a_terminal")
def test_report_command_shows_progress_of_stages_at_terminal() -> None:
    shown = run("report", "-", typed=SNAPSHOT).stdout
    assert "0 of 2 stages completed, 0 %" in shown
    assert "1 of 2 steps, 50 %, 0 of 4 documents" in shown
    assert "✓ Done" in shown
    assert "◐ Running" in shown
    assert "· To do" in shown
    assert "▲ step 'write': 1 job in the unknown status 'paused'" in shown


@pytest.mark.usefixtures("_at_a_terminal")
def test_map_command_prints_steps_and_expected_number_of_jobs() -> None:
    shown = run("map", "-", typed=SNAPSHOT).stdout
    assert "thesis  2 steps, 4 jobs" in shown
    assert "root" in shown
    output = run("map", "-", typed=write_definition(DAG)).stdout
    assert "▲ expected jobs unknown" in output


@pytest.mark.usefixtures("_at_a_terminal")
def test_map_command_prints_each_workflow_error_on_a_separate_line() -> None:
    definition = make_cycle()
    definition["stages"][1]["recipe"]["edges"] = [["a", "b"]]
    failed = run("map", "-", typed=definition)
    assert failed.exit_code == 1
    assert failed.stdout == ""
    assert len(failed.stderr.splitlines()) == 3
    assert all(line.startswith("✗ stages[") for line in failed.stderr.splitlines())


@pytest.mark.usefixtures("_at_a_terminal")
def test_report_command_prints_an_error_for_input_without_a_workflow() -> None:
    failed = run("report", "-", typed=NO_SNAPSHOT)
    assert (failed.exit_code, failed.stderr) == (1, "✗ this is not a snapshot: it has no dag\n")


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_report_and_map_output_fits_terminal_width(width: int) -> None:
    long = make_dag(
        make_stage("a-stage-with-a-long-name", *(make_step("x" * 90 + str(n)) for n in "12"))
    )
    snapshot = make_snapshot(long, runs={"a-stage-with-a-long-name": ["alpha"]})
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(workflow_views.report_display(report_from_snapshot(snapshot), width))
        console.print(workflow_views.map_display(map_from_snapshot(snapshot), width))
    assert all(len(line.rstrip()) <= width for line in captured.get().splitlines())


# Tests of scripts that convert runs of other systems.


EXPORTS = Path(__file__).parents[2] / "examples" / "exports"
START: Body = {"name": "__start__", "error": None, "result": {}}


def load(system: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((EXPORTS / f"{system}.json").read_text())


def converted_statuses(system: str, export: object) -> dict[str, str]:
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
def test_airflow_task_state_determines_step_status(state: str | None, status: str) -> None:
    assert converted_statuses("airflow", [{"task_id": "load", "state": state}]) == {"load": status}


def test_unknown_airflow_state_stops_the_conversion() -> None:
    with pytest.raises(KeyError, match="zombie"):
        converted_statuses("airflow", [{"task_id": "load", "state": "zombie"}])


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
    assert converted_statuses("argo", export) == {"[0].lint": "failed", "[1].ship": "completed"}


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
    assert converted_statuses("langgraph", export)["approve"] == status


def test_langgraph_report_covers_only_the_last_run_of_the_thread() -> None:
    export = load("langgraph")
    newest = {
        "tasks": [START],
        "metadata": {"source": "input"},
        "checkpoint": {"checkpoint_id": "c6"},
        "parent_checkpoint": {"checkpoint_id": "c5"},
    }
    export["history"].insert(0, newest)
    assert {*converted_statuses("langgraph", export).values()} == {"not_started"}
    newest["tasks"] = []
    assert {*converted_statuses("langgraph", export).values()} == {"completed"}
