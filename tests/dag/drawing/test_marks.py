"""Statuses and counts of a run or plan on its map."""

import json
from pathlib import Path

from dag_builders import make_chain, make_dag, make_stage, make_step
from dag_evidence import make_job, make_snapshot
from waybook.dag.diagram.status_marks import Annotation
from waybook.dag.diagram.svg import drawing_from_snapshot, export_drawing
from waybook.dag.model import DrawingFormat

ROOT = Path(__file__).parents[3]
DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write")),
    make_stage("antithesis"),
)
SNAPSHOT = make_snapshot(
    DAG,
    make_job("thesis", "plan", "completed", id="1"),
    make_job("thesis", "plan", "failed", id="2"),
    runs={"thesis": ["alpha", "beta"]},
)


def test_drawn_step_shows_number_of_done_or_expected_jobs() -> None:
    marks = drawing_from_snapshot(SNAPSHOT).annotations
    assert marks.step("thesis", "plan") == Annotation("failed", "1/2")
    assert marks.step("thesis", "write") == Annotation("pending", "2 jobs")
    assert marks.step("antithesis", "antithesis-work") == Annotation("pending", "2 jobs")
    assert marks.step("nowhere", "else") == Annotation("pending")


def test_drawn_stage_shows_how_many_steps_and_documents_are_done() -> None:
    marks = drawing_from_snapshot(SNAPSHOT).annotations
    assert marks.stage("thesis") == Annotation("failed", "0 of 2 steps, 0 of 4 documents")
    assert marks.stage("antithesis") == Annotation("pending")


def test_stage_with_a_cycle_is_drawn_with_unknown_status() -> None:
    broken = json.loads(json.dumps(SNAPSHOT))
    broken["dag"]["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    drawing = drawing_from_snapshot(broken)
    assert drawing.annotations.stage("thesis") == Annotation("unknown")
    assert drawing.diagram.lanes[0].edges == ()


def test_example_snapshot_svg_is_up_to_date() -> None:
    example = json.loads((ROOT / "examples" / "snapshot.json").read_text("utf-8"))
    picture = ROOT / "docs" / "pictures" / "snapshot.svg"
    assert picture.read_text("utf-8") == export_drawing(
        DrawingFormat.SVG, drawing_from_snapshot(example)
    ), "run `make generate`"
