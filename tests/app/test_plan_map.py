"""The map and the report of a plan show the plan like a run with one stage."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import NOON, make_plan, make_step
from report_invariants import check
from waybook.app.queries.plans.plan import (
    PROGRESS_BY_STATUS,
    STAGE,
    edges_of,
    plan_evidence,
    plan_report,
    plan_structure,
)
from waybook.dag.progress.report import Report, StageReport, report
from waybook.dag.progress.structure import map_json
from waybook.plan.model import StepStatus

S = StepStatus


def checked_report(*statuses: StepStatus) -> Report:
    """Return the report of a plan whose steps have these statuses, after checking it."""
    plan = make_plan(*map(make_step, statuses))
    progress_report = report(plan_structure(plan), {STAGE: plan_evidence(plan)})
    assert check(progress_report) == []
    return progress_report


def stage_of(*statuses: StepStatus) -> StageReport:
    (stage,) = checked_report(*statuses)["stages"]
    return stage


def standings(*statuses: StepStatus) -> list[str]:
    return [str(step["status"]) for step in stage_of(*statuses)["steps"] or ()]


def test_plan_report_has_a_progress_status_for_every_step_status() -> None:
    assert set(PROGRESS_BY_STATUS) == set(StepStatus)
    assert standings(*StepStatus) == [
        "not_started",
        "in_progress",
        "in_progress",
        "completed",
        "completed",
        "failed",
    ]


def test_plan_report_shows_stage_as_failed_if_a_step_failed() -> None:
    progress_report = checked_report(S.COMPLETED, S.FAILED, S.SKIPPED)
    (stage,) = progress_report["stages"]
    assert stage["status"] == "failed"
    assert stage["progress"] == {"completedSteps": 2, "totalSteps": 3, "failedSteps": 1}
    assert progress_report["dagProgress"] == {"completedStages": 0, "totalStages": 1}


def test_plan_report_has_start_time_of_step_in_progress() -> None:
    (step,) = stage_of(S.IN_PROGRESS)["steps"] or []
    assert step["jobs"] == {"done": 0, "active": 1, "failed": 0}
    assert step["startedAt"] is not None
    assert step["startedAt"].startswith(NOON.isoformat()[:19])


@given(st.lists(st.sampled_from(StepStatus)))
def test_plan_report_is_valid_and_contains_every_step(statuses: list[StepStatus]) -> None:
    assert len(stage_of(*statuses)["steps"] or ()) == len(statuses)


@pytest.mark.parametrize("status", StepStatus)
def test_plan_report_has_no_warnings_for_any_step_status(status: StepStatus) -> None:
    progress_report = checked_report(status)
    assert progress_report["warnings"] == progress_report["stages"][0]["warnings"] == []
    assert progress_report["stages"][0]["modelCount"] is None


def test_plan_map_without_dependencies_links_steps_in_order() -> None:
    plan = make_plan(*(make_step() for _ in range(3)))
    (stage,) = map_json(plan_structure(plan), {})["stages"]
    assert stage["order"] == [step.id for step in plan.steps]
    assert list(edges_of(plan)) == [*pairwise(stage["order"])]
    assert (stage["roots"], stage["leaves"]) == (stage["order"][:1], stage["order"][-1:])


def test_step_without_dependencies_follows_all_steps_in_sequential_plan() -> None:
    plan = make_plan(*(make_step() for _ in range(5)))._replace(sequential=True)
    one, two, three, four, five = (step.id for step in plan.steps)
    needs = {two: (one,), three: (one,), one: (), four: (), five: (three,)}
    steps = tuple(step._replace(depends_on=needs[step.id]) for step in plan.steps)
    edges = edges_of(plan._replace(steps=steps))
    assert set(edges) == {(one, two), (one, three), (two, four), (three, four), (three, five)}


def test_plan_without_steps_has_empty_map_and_is_not_started() -> None:
    plan = make_plan()
    assert map_json(plan_structure(plan), {})["stages"][0]["order"] == []
    stage = stage_of()
    assert (stage["status"], stage["steps"], stage["warnings"]) == ("not_started", [], [])


def test_plan_report_contains_revision_of_plan() -> None:
    plan = make_plan(make_step(S.PENDING))
    assert plan_report(plan)["revision"] == plan.revision
