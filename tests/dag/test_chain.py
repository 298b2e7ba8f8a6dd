"""A plan as a report: one stage, its steps as the plan knows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decisions import decision
from waybook.dag.chain import STANDINGS, Link, plan_report
from waybook.dag.invariants import check
from waybook.dag.model import Standing
from waybook.plan.states import StepStatus

S = StepStatus


def links(*statuses: StepStatus) -> list[Link]:
    return [Link(key=f"s{n}", status=status) for n, status in enumerate(statuses, start=1)]


def standings(*statuses: StepStatus) -> list[str]:
    (stage,) = plan_report("Rivers", links(*statuses), revision=1)["stages"]
    return [step["status"] for step in stage["steps"] or ()]


@decision("X2")
def test_six_statuses_of_a_plan_are_four_of_a_map() -> None:
    assert set(STANDINGS) == set(StepStatus)
    assert standings(*StepStatus) == [
        "not_started",
        "in_progress",
        "in_progress",
        "completed",
        "completed",
        "failed",
    ]


@decision("X1")
def test_a_plan_that_completed_with_a_failed_step_shows_its_stage_failed() -> None:
    told = plan_report("Rivers", links(S.COMPLETED, S.FAILED, S.SKIPPED), revision=4)
    (stage,) = told["stages"]
    assert stage["status"] == "failed"
    assert stage["progress"] == {"completedSteps": 2, "totalSteps": 3, "failedSteps": 1}
    assert told["dagProgress"] == {"completedStages": 0, "totalStages": 1}


@decision("X3")
def test_the_report_of_a_plan_carries_its_revision() -> None:
    assert plan_report("Rivers", links(S.PENDING), revision=7)["revision"] == 7


def test_a_pending_step_before_a_completed_one_is_still_to_be_done() -> None:
    assert standings(S.PENDING, S.COMPLETED) == ["not_started", "completed"]


def test_a_plan_without_steps_has_not_started() -> None:
    (stage,) = plan_report("Rivers", [], revision=1)["stages"]
    assert (stage["status"], stage["steps"], stage["warnings"]) == ("not_started", [], [])


def test_a_step_tells_when_it_began_and_ended() -> None:
    at, end = "2030-01-01T12:00:00Z", "2030-01-01T12:05:00Z"
    link = Link(key="s1", status="completed", started_at=at, completed_at=end)
    (stage,) = plan_report("Rivers", [link], revision=1)["stages"]
    assert stage["steps"] == [
        {
            "stepKey": "s1",
            "status": Standing.COMPLETED,
            "jobs": {"done": 1, "active": 0, "failed": 0},
            "startedAt": at,
            "completedAt": end,
        }
    ]


@given(st.lists(st.sampled_from(StepStatus)))
def test_the_invariants_hold_of_any_plan(statuses: list[StepStatus]) -> None:
    assert check(plan_report("Rivers", links(*statuses), revision=1)) == []


@pytest.mark.parametrize("status", StepStatus)
def test_nothing_is_strange_about_a_plan(status: StepStatus) -> None:
    told = plan_report("Rivers", links(status), revision=1)
    assert told["warnings"] == told["stages"][0]["warnings"] == []
    assert told["stages"][0]["modelCount"] is None
