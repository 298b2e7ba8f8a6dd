"""Pictures of progress: files in SVG, Mermaid and Markdown; bars and timelines in a terminal."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from cli.sample_runs import run_in_progress
from cli.terminal import Terminal
from dag_builders import make_chain, make_dag, make_stage, make_step
from dag_evidence import Body, make_job, make_snapshot
from waybook.app.queries.plans.plan import StepStatusChange
from waybook.app.queries.timeline import Axis, Span, spans_of, time_spent
from waybook.cli.app import app
from waybook.cli.terminal.bars import cell_counts, segmented_bar
from waybook.cli.terminal.plan_board import TICKS, timeline_bar
from waybook.core.shown import Shown
from waybook.dag.definitions.definition import write_definition
from waybook.plan.model import StepStatus

EXAMPLES = Path(__file__).parents[2] / "examples"
DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write")),
    make_stage("antithesis"),
)
SNAPSHOT = make_snapshot(
    DAG,
    make_job("thesis", "plan", "completed"),
    make_job("thesis", "write", "processing"),
    runs={"thesis": ["alpha", "beta"]},
)


def run(*words: str, typed: object = None) -> Result:
    return CliRunner().invoke(app, words, input=json.dumps(typed))


def statuses(svg: str) -> dict[str, str]:
    root = ET.fromstring(svg)  # noqa: S314 - the test created it
    steps = [element.attrib for element in root.iter() if element.get("class") == "step"]
    return {step["data-step"]: step["data-status"] for step in steps}


def test_map_command_draws_progress_of_run_snapshot_as_svg() -> None:
    drawn = run("map", "-", "--svg", "-", typed=SNAPSHOT)
    assert drawn.exit_code == 0
    assert statuses(drawn.stdout) == {
        "plan": "completed",
        "write": "in_progress",
        "antithesis-work": "pending",
    }
    assert ">1/1</text>" in drawn.stdout
    assert ">2 jobs</text>" in drawn.stdout
    assert "<style>" in drawn.stdout


def test_map_command_writes_svg_mermaid_and_markdown_in_one_call(tmp_path: Path) -> None:
    forms = {form: tmp_path / f"map.{form}" for form in ("svg", "mermaid", "markdown")}
    words = [word for form, file in forms.items() for word in (f"--{form}", str(file))]
    result = run("map", str(EXAMPLES / "dag.yaml"), *words)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [f"written  {file}" for file in forms.values()]
    contents = {form: file.read_text("utf-8") for form, file in forms.items()}
    assert contents["svg"].startswith("<svg ")
    assert contents["mermaid"].startswith("flowchart LR\n")
    assert contents["markdown"].startswith("# ")


def test_map_command_draws_valid_part_of_invalid_snapshot() -> None:
    broken: Body = {**SNAPSHOT, "dag": write_definition(DAG)}
    broken["dag"]["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    broken["dag"]["transitions"] = [{"from": "thesis", "to": "nowhere"}]
    drawn = run("map", "-", "--svg", "-", typed=broken)
    assert drawn.exit_code == 0
    assert statuses(drawn.stdout).keys() == {"plan", "write", "antithesis-work"}
    assert ">Unknown</text>" in drawn.stdout


def test_map_command_writes_no_svg_file_for_invalid_workflow(tmp_path: Path) -> None:
    definition: Body = write_definition(DAG)
    definition["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    target = tmp_path / "map.svg"
    refused = run("map", "-", "--svg", str(target), typed=definition)
    assert refused.exit_code == 1
    assert "the steps form a cycle" in refused.stderr
    assert not target.exists()


@pytest.mark.parametrize("where", ["no/such/folder/map.svg", "."])
def test_map_command_with_unwritable_svg_path_is_a_usage_error(where: str) -> None:
    failed = run("map", "-", "--svg", where, typed=SNAPSHOT)
    assert failed.exit_code == 2
    assert where in failed.stderr


# Tests of drawings of plans and runs.


def test_status_command_draws_plan_progress_as_svg(terminal: Terminal) -> None:
    plan_id = terminal.under_review("Rivers & lakes")
    svg = terminal.say("status", plan_id, "--svg", "-")
    assert list(statuses(svg).values()) == ["awaiting_input", "blocked", "blocked"]
    assert "Part 1: Needs you, step 1" in svg
    listed = terminal.say("status", plan_id, "--markdown", "-")
    assert listed.startswith("# Rivers \\& lakes\n\n1. Part 1 — ! Needs you, step 1\n")


def test_run_command_draws_run_progress_as_svg(terminal: Terminal, tmp_path: Path) -> None:
    run_id = run_in_progress(terminal, "A dialectic on the wall")
    target = tmp_path / "run.svg"
    terminal.say("run", run_id, "--svg", str(target))
    svg = target.read_text("utf-8")
    status_by_step = statuses(svg)
    assert len(status_by_step) == 33
    assert set(status_by_step.values()) == {"completed", "in_progress", "pending"}
    assert "“" in svg


# Tests of bars and timelines in the terminal.


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
COUNTS = st.dictionaries(st.sampled_from(Shown), st.integers(0, 300))


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


@given(COUNTS, st.integers(7, 200))
def test_progress_bar_has_the_requested_width(counts: dict[Shown, int], width: int) -> None:
    assert segmented_bar(counts, width).cell_len == width


@given(COUNTS, st.integers(7, 200))
def test_progress_bar_shows_every_status_in_at_least_one_cell(
    counts: dict[Shown, int], width: int
) -> None:
    cells = cell_counts(counts, width)
    drawn = {state if state in cells else Shown.TODO for state, count in counts.items() if count}
    assert all(cells[state] >= 1 for state in drawn)


def test_terminal_timeline_separates_work_from_waiting_for_review() -> None:
    moves = [
        StepStatusChange("a", minutes(0), StepStatus.IN_PROGRESS, "ann", None),
        StepStatusChange("a", minutes(5), StepStatus.FAILED, "ann", None),
        StepStatusChange("a", minutes(5), StepStatus.PENDING, "ann", None),
        StepStatusChange("a", minutes(8), StepStatus.IN_PROGRESS, "ann", None),
        StepStatusChange("a", minutes(9), StepStatus.AWAITING_INPUT, "ann", None),
        StepStatusChange("a", minutes(20), StepStatus.COMPLETED, "ann", None),
        StepStatusChange("b", minutes(30), StepStatus.IN_PROGRESS, "ann", None),
    ]
    spans = spans_of(moves, minutes(32))
    assert spans["a"] == [
        Span(minutes(0), minutes(5), StepStatus.FAILED),
        Span(minutes(8), minutes(9), StepStatus.COMPLETED),
        Span(minutes(9), minutes(20), StepStatus.AWAITING_INPUT),
    ]
    assert spans["b"] == [Span(minutes(30), minutes(32), StepStatus.IN_PROGRESS)]
    assert time_spent(spans["a"]) == timedelta(minutes=6)


def test_terminal_timeline_shortens_a_long_pause() -> None:
    monday = Span(minutes(0), minutes(10), StepStatus.COMPLETED)
    thursday = Span(minutes(4000), minutes(4010), StepStatus.COMPLETED)
    axis = Axis([monday, thursday])
    assert timeline_bar([place(monday, axis)], 22).plain == "━" * 10
    assert timeline_bar([place(thursday, axis)], 22).plain == " " * 12 + "━" * 10


def place(span: Span, axis: Axis) -> tuple[int, int, str]:
    """Return the place of a span on the axis, as in the view of a plan."""
    return axis.column(span.start, TICKS), axis.column(span.end, TICKS), str(span.status)


SPANS = st.lists(
    st.builds(
        lambda start, length, status: Span(minutes(start), minutes(start + length), status),
        st.floats(0, 10_000),
        st.floats(0, 500),
        st.sampled_from(StepStatus),
    ),
    min_size=1,
)


@given(SPANS, st.integers(1, 120))
def test_terminal_timeline_shows_every_time_span(spans: list[Span], width: int) -> None:
    axis = Axis(spans)
    for span in spans:
        line = timeline_bar([place(span, axis)], width).plain
        assert 1 <= len(line.strip()) <= len(line) <= width
