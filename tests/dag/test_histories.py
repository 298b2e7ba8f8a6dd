"""Reports of random runs, which are valid and consistent after every change."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dag_builders import dags
from dag_evidence import CHANCE, History, shuffled
from report_invariants import check
from waybook.dag.model import Dag
from waybook.dag.progress.report import Report
from waybook.dag.snapshots.snapshot import report_from_snapshot

MOMENTS = 30


HISTORIES = {"dag": dags(max_stages=3, max_steps=5), "chance": CHANCE, "closes": st.booleans()}


@settings(max_examples=25)
@given(**HISTORIES)
def test_number_of_completed_steps_in_reports_never_decreases(
    dag: Dag, chance: Random, *, closes: bool
) -> None:
    before: Report | None = None
    for moment in History(dag, chance, closes).moments(MOMENTS):
        report = report_from_snapshot(moment)
        assert check(report, before) == []
        before = report


@settings(max_examples=40)
@given(**HISTORIES)
def test_run_report_does_not_depend_on_row_order(dag: Dag, chance: Random, *, closes: bool) -> None:
    snapshot = History(dag, chance, closes).played(MOMENTS)
    other = report_from_snapshot(shuffled(snapshot, chance))
    assert report_from_snapshot(snapshot) == other


@settings(max_examples=25)
@given(dags(max_stages=3, max_steps=5), CHANCE)
def test_stage_is_completed_exactly_when_every_step_is_closed(dag: Dag, chance: Random) -> None:
    history = History(dag, chance, closes=True)
    for stage in report_from_snapshot(history.played(150))["stages"]:
        assert (stage["status"] == "completed") == history.is_complete(stage["stageSlug"])
