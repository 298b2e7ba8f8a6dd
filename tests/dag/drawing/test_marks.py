"""What is shown upon a map: the marks that a report comes to, and pictures that are current."""

import json
from pathlib import Path

from dag_builders import a_chain, a_dag, a_stage, a_step
from dag_evidence import a_job, a_snapshot
from waybook.cli.looks import STANDING_LOOKS, STEP_LOOKS
from waybook.dag.drawing.drawing import Form, drawing_of, drawn_as
from waybook.dag.drawing.looks import LOOKS
from waybook.dag.drawing.marks import Mark

ROOT = Path(__file__).parents[3]
DAG = a_dag(
    a_stage("thesis", a_step("plan"), a_step("write"), edges=a_chain("plan", "write")),
    a_stage("antithesis"),
)
SNAPSHOT = a_snapshot(
    DAG,
    a_job("thesis", "plan", "completed", id="1"),
    a_job("thesis", "plan", "failed", id="2"),
    runs={"thesis": ["alpha", "beta"]},
)


def test_a_step_has_its_jobs_done_or_those_to_come() -> None:
    marks = drawing_of(SNAPSHOT).marks
    assert marks.step("thesis", "plan") == Mark("failed", "1/2")
    assert marks.step("thesis", "write") == Mark("not_started", "2 jobs")
    assert marks.step("antithesis", "antithesis-work") == Mark("not_started", "2 jobs")
    assert marks.step("nowhere", "else") == Mark("not_started")


def test_a_stage_has_its_figures() -> None:
    marks = drawing_of(SNAPSHOT).marks
    assert marks.stage("thesis") == Mark("failed", "0 of 2 steps, 0 of 4 documents")
    assert marks.stage("antithesis") == Mark("not_started")


def test_a_stage_that_cannot_be_walked_is_unknown() -> None:
    broken = json.loads(json.dumps(SNAPSHOT))
    broken["dag"]["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    drawing = drawing_of(broken)
    assert drawing.marks.stage("thesis") == Mark("unknown")
    assert drawing.sketch.lanes[0].edges == ()


def test_a_terminal_and_a_drawing_have_the_same_words_and_signs() -> None:
    shown = [*STEP_LOOKS.items(), *STANDING_LOOKS.items()]
    drawn = [(str(status), LOOKS[status]) for status, _ in shown]
    assert [(str(status), look.icon, look.word) for status, look in shown] == [
        (status, look.sign, look.word) for status, look in drawn
    ]


def test_the_picture_of_the_example_is_current() -> None:
    example = json.loads((ROOT / "examples" / "snapshot.json").read_text("utf-8"))
    picture = ROOT / "docs" / "pictures" / "snapshot.svg"
    assert picture.read_text("utf-8") == drawn_as(Form.SVG, drawing_of(example)), (
        "run `make generate`"
    )
