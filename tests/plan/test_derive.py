from itertools import combinations_with_replacement

import pytest

from waybook.plan.model import PlanStatus, StepStatus, derive_plan_status

TERMINAL = {"completed", "skipped", "failed"}


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
