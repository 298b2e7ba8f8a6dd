import pytest

from decision_proofs import decision
from plan_builders import make_context, make_plan, make_step
from plan_invariants import is_derivable
from waybook.plan.draft import Draft
from waybook.plan.model import PLAN_MOVES, PlanStatus, StepStatus
from waybook.plan.settle import settle, transition_path

S = StepStatus
P = PlanStatus


def settled(status: PlanStatus, *steps: StepStatus) -> PlanStatus:
    draft = Draft(make_plan(*map(make_step, steps), status=status), make_context())
    settle(draft)
    return draft.plan.status


@decision("A2")
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


@decision("A16")
def test_plan_stays_in_planning_while_all_steps_are_pending() -> None:
    assert settled(P.PLANNING, S.PENDING, S.PENDING) is P.PLANNING
    assert settled(P.PLANNING, S.PENDING, S.IN_PROGRESS) is P.EXECUTING
    assert settled(P.PLANNING) is P.PLANNING


def test_stalled_plan_stays_stalled_while_a_step_is_in_progress() -> None:
    assert settled(P.STALLED, S.IN_PROGRESS) is P.STALLED


@pytest.mark.parametrize("status", [P.COMPLETED, P.FAILED])
def test_closed_plan_stays_closed_despite_a_step_in_progress(status: PlanStatus) -> None:
    assert settled(status, S.IN_PROGRESS) is status


@pytest.mark.parametrize(
    ("status", "steps", "allowed"),
    [
        (P.PLANNING, [S.PENDING], True),
        (P.PLANNING, [S.COMPLETED, S.PENDING], False),
        (P.EXECUTING, [S.PENDING], True),
        (P.EXECUTING, [S.COMPLETED], False),
        (P.EXECUTING, [], False),
        (P.AWAITING_REVIEW, [S.AWAITING_INPUT], True),
        (P.AWAITING_REVIEW, [S.IN_PROGRESS], False),
        (P.STALLED, [S.IN_PROGRESS], True),
        (P.STALLED, [S.COMPLETED], False),
        (P.FAILED, [S.IN_PROGRESS], True),
        (P.COMPLETED, [S.FAILED, S.SKIPPED], True),
        (P.COMPLETED, [S.PENDING], False),
    ],
)
def test_plan_status_may_not_contradict_the_step_statuses(
    status: PlanStatus, steps: list[StepStatus], *, allowed: bool
) -> None:
    assert is_derivable(status, steps) == allowed
