"""Function `check`: it accepts valid reports, and returns each invariant that a report violates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import dags, make_chain, make_dag, make_stage, make_step
from dag_evidence import any_evidence
from report_invariants import check
from waybook.dag.definitions.definition import graphs_of
from waybook.dag.model import Dag, ProgressStatus
from waybook.dag.progress.report import Report, StageEvidence, report
from waybook.dag.progress.structure import Evidence, valid_structure

DAG = make_dag(
    make_stage("first", make_step("a"), make_step("b"), edges=make_chain("a", "b")),
    make_stage("second"),
)


def make_report(**steps: Evidence) -> Report:
    """Return the report of a run with these job counts for the steps of the first stage."""
    seen = {"first": StageEvidence(models=("m",), steps=steps)}
    return report(valid_structure(DAG, graphs_of(DAG)), seen)


DONE, RUNNING, FAILED = Evidence(done=1), Evidence(active=1), Evidence(failed=1)


@given(dags(max_stages=3, max_steps=6), st.data())
def test_report_of_a_run_in_any_state_violates_no_invariant(dag: Dag, data: st.DataObject) -> None:
    graphs = graphs_of(dag)
    slugs = data.draw(st.lists(st.sampled_from(list(graphs)), unique=True))
    seen = {
        slug: StageEvidence(models=("m", "n"), steps=data.draw(any_evidence(graphs[slug])))
        for slug in slugs
    }
    assert check(report(valid_structure(dag, graphs), seen)) == []


def test_stage_without_steps_is_not_completed() -> None:
    empty = make_report()
    assert empty["stages"][1]["progress"] == {
        "completedSteps": 0,
        "totalSteps": 0,
        "failedSteps": 0,
    }
    assert empty["stages"][1]["status"] == "not_started"
    empty["stages"][1]["status"] = ProgressStatus.COMPLETED
    assert "completed_means_every_step" in check(empty)


@pytest.mark.parametrize(
    ("before", "after", "falls"),
    [
        (make_report(a=DONE), make_report(a=DONE, b=RUNNING), False),
        (make_report(a=FAILED), make_report(a=RUNNING), False),
        (make_report(a=DONE), make_report(a=RUNNING), True),
        (make_report(a=DONE, b=DONE), make_report(a=DONE, b=RUNNING), True),
    ],
    ids=["going on", "trying again", "a step undone", "a stage undone"],
)
def test_check_of_two_reports_finds_only_a_decrease_of_completed_steps(
    before: Report, after: Report, *, falls: bool
) -> None:
    assert check(after, before) == (["completed_never_decreases"] if falls else [])
