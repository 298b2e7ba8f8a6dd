from itertools import combinations_with_replacement

import pytest

from waybook.plan.model import PlanStatus, StepStatus, derive_plan_status

TERMINAL = {"completed", "skipped", "failed"}


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ("", "planning"),
        ("completed failed pending", "executing"),
        ("completed failed skipped", "completed"),
        ("failed awaiting_input", "awaiting_review"),
        ("failed failed", "completed"),
        ("pending pending", "executing"),
    ],
)
def test_derived_plan_status_matches_the_documented_examples(steps: str, status: str) -> None:
    assert derive_plan_status([StepStatus(step) for step in steps.split()]) == status


@pytest.mark.parametrize("count", range(5))
def test_plan_status_is_derived_from_any_combination_of_step_statuses(count: int) -> None:
    for steps in combinations_with_replacement(StepStatus, count):
        if not steps:
            expected = PlanStatus.PLANNING
        elif "awaiting_input" in steps:
            expected = PlanStatus.AWAITING_REVIEW
        elif set(steps) <= TERMINAL:
            expected = PlanStatus.COMPLETED
        else:
            expected = PlanStatus.EXECUTING
        assert derive_plan_status(steps) is expected
