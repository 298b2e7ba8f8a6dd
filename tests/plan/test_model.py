import pytest

from plan_builders import make_condition, make_plan, make_step, step_id
from waybook.errors import NotFound
from waybook.plan.model import BranchOutcome, StepId, StepStatus


def test_plan_finds_a_step_by_id() -> None:
    assert make_plan(make_step(), make_step()).step(step_id(2)).order == 2


def test_unknown_step_id_of_a_plan_raises_an_error() -> None:
    with pytest.raises(NotFound) as refusal:
        make_plan(make_step()).step(StepId("gone"))
    assert refusal.value.details == {"stepId": "gone", "planId": "p"}


def test_steps_with_a_status_are_returned_in_plan_order() -> None:
    plan = make_plan(make_step(), make_step(StepStatus.FAILED), make_step())
    assert [step.order for step in plan.steps_with_status(StepStatus.PENDING)] == [1, 3]


def test_pending_conditions_exclude_evaluated_conditions() -> None:
    looked_at = make_condition(1, "true", outcome=BranchOutcome.NOT_FIRED)
    plan = make_plan(make_step(), conditions=(looked_at, make_condition(1, "false")))
    assert [condition.id for condition in plan.pending_conditions()] == ["c2"]
