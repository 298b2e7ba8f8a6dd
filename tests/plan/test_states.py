import pytest

from waybook.errors import InvalidTransition
from waybook.plan.model import (
    CLOSED_PLAN,
    DONE_STEP,
    PLAN_MOVES,
    STEP_MOVES,
    TERMINAL_STEP,
    PlanStatus,
    StepStatus,
    can_move_plan,
    can_move_step,
    move_plan,
    move_step,
)

#: Allowed status changes, written down again for comparison with the code.
PLAN_TABLE = {
    "planning": ["executing", "failed"],
    "executing": ["awaiting_review", "stalled", "completed", "failed"],
    "awaiting_review": ["executing", "failed"],
    "stalled": ["executing", "failed"],
    "completed": [],
    "failed": [],
}
STEP_TABLE = {
    "pending": ["in_progress", "skipped"],
    "in_progress": ["awaiting_input", "completed", "failed"],
    "awaiting_input": ["in_progress", "completed", "skipped", "failed"],
    "completed": [],
    "skipped": [],
    "failed": ["pending"],
}


@pytest.mark.parametrize("old", PlanStatus)
@pytest.mark.parametrize("new", PlanStatus)
def test_plan_status_changes_only_as_in_the_documented_table(
    old: PlanStatus, new: PlanStatus
) -> None:
    documented = new in PLAN_TABLE[old]
    assert can_move_plan(old, new) == documented
    if documented:
        assert move_plan(old, new) is new
    else:
        with pytest.raises(InvalidTransition) as refusal:
            move_plan(old, new)
        assert refusal.value.code == "INVALID_TRANSITION"
        assert refusal.value.details == {"from": old, "to": new}


@pytest.mark.parametrize("old", StepStatus)
@pytest.mark.parametrize("new", StepStatus)
def test_step_status_changes_only_as_in_the_documented_table(
    old: StepStatus, new: StepStatus
) -> None:
    documented = new in STEP_TABLE[old]
    assert can_move_step(old, new) == documented
    if documented:
        assert move_step(old, new) is new
    else:
        with pytest.raises(InvalidTransition) as refusal:
            move_step(old, new)
        assert refusal.value.details == {"from": old, "to": new}


def test_closed_plan_statuses_are_exactly_those_without_transitions() -> None:
    assert {status for status, moves in PLAN_MOVES.items() if not moves} == CLOSED_PLAN


def test_done_step_statuses_are_exactly_those_without_transitions() -> None:
    assert {status for status, moves in STEP_MOVES.items() if not moves} == DONE_STEP
    assert {StepStatus.FAILED} == TERMINAL_STEP - DONE_STEP
