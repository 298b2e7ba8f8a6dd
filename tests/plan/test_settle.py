import pytest

from plan_builders import make_context, make_plan, make_step
from waybook.plan.draft import Draft, settle, transition_path
from waybook.plan.model import PLAN_MOVES, PlanStatus, StepStatus

S = StepStatus
P = PlanStatus


def settled(status: PlanStatus, *steps: StepStatus) -> PlanStatus:
    draft = Draft(make_plan(*map(make_step, steps), status=status), make_context())
    settle(draft)
    return draft.plan.status


@pytest.mark.parametrize("status", [P.PLANNING, P.STALLED, P.AWAITING_REVIEW])
def test_plan_status_changes_to_executing_before_completed(status: PlanStatus) -> None:
    assert transition_path(status, P.COMPLETED) == (P.EXECUTING, P.COMPLETED)
    assert settled(status, S.COMPLETED) is P.COMPLETED


@pytest.mark.parametrize("target", [P.EXECUTING, P.COMPLETED, P.AWAITING_REVIEW])
@pytest.mark.parametrize("status", [P.PLANNING, P.EXECUTING, P.AWAITING_REVIEW, P.STALLED])
def test_plan_status_changes_only_along_documented_transitions(
    status: PlanStatus, target: PlanStatus
) -> None:
    here = status
    for there in transition_path(status, target):
        assert there in PLAN_MOVES[here]
        here = there
    assert here is target


def test_plan_stays_in_planning_while_all_steps_are_pending() -> None:
    assert settled(P.PLANNING, S.PENDING, S.PENDING) is P.PLANNING
    assert settled(P.PLANNING, S.PENDING, S.IN_PROGRESS) is P.EXECUTING
    assert settled(P.PLANNING) is P.PLANNING
