from collections.abc import Callable

import pytest

from plan_builders import make_context, make_new_step, make_plan, make_step, step_id
from waybook.errors import PlanTerminal
from waybook.plan.draft import detect_stall, require_open, resume_session, status_call
from waybook.plan.model import DecisionKind, Plan, PlanStatus, StepStatus
from waybook.plan.modify import AddSteps, modify
from waybook.plan.next_step import next_step
from waybook.plan.review import ReviewRequest, decide, request_review

CLOSED = [PlanStatus.COMPLETED, PlanStatus.FAILED]
MUTATIONS: list[Callable[[Plan], object]] = [
    lambda plan: request_review(plan, step_id(1), ReviewRequest(summary="?"), make_context()),
    lambda plan: decide(plan, DecisionKind.APPROVE, make_context()),
    lambda plan: modify(plan, (AddSteps((make_new_step(),)),), make_context()),
]


@pytest.mark.parametrize("status", CLOSED)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_every_change_of_a_closed_plan_raises_plan_terminal(
    status: PlanStatus, mutation: Callable[[Plan], object]
) -> None:
    plan = make_plan(make_step(StepStatus.IN_PROGRESS), status=status, fail_reason="enough")
    with pytest.raises(PlanTerminal) as refusal:
        mutation(plan)
    assert refusal.value.code == "PLAN_TERMINAL"
    assert refusal.value.details["status"] == status
    assert refusal.value.details["reason"] == "enough"
    assert refusal.value.next_call is not None
    assert refusal.value.next_call.tool == "copy_plan"
    assert refusal.value.next_call.args == {"planId": "p"}


def test_closed_plan_without_open_steps_suggests_get_plan_status() -> None:
    plan = make_plan(make_step(StepStatus.COMPLETED), make_step(StepStatus.SKIPPED))
    with pytest.raises(PlanTerminal) as refusal:
        require_open(plan)
    assert refusal.value.next_call == status_call(plan, "See how the plan ended.")


@pytest.mark.parametrize("status", CLOSED)
def test_claims_stall_checks_and_resumptions_never_change_a_closed_plan(status: PlanStatus) -> None:
    plan = make_plan(make_step(StepStatus.IN_PROGRESS), status=status, sessions=frozenset[str]())
    late = make_context(minutes=600)
    assert next_step(plan, late).entries == ()
    assert detect_stall(plan, late).entries == ()
    assert resume_session(plan, late).entries == ()


def test_suggested_call_of_get_plan_status_contains_the_plan_id() -> None:
    assert status_call(make_plan(), "why").args == {"planId": "p"}
