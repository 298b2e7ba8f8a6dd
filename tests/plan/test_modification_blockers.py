"""Function `blocking_reason`, which returns exactly the error that `modify` raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import make_context, make_plan, make_step
from waybook.errors import Refused
from waybook.plan.model import PlanStatus, StepId, StepStatus
from waybook.plan.modify import (
    FailStep,
    Modification,
    RemoveStep,
    RetryStep,
    blocking_reason,
    modify,
)

CHANGES: list[Modification] = [
    RemoveStep(StepId("s1")),
    FailStep(StepId("s1"), "so"),
    RetryStep(StepId("s1")),
]


@given(
    st.lists(st.sampled_from(StepStatus), min_size=1, max_size=4),
    st.sampled_from(PlanStatus),
    st.sampled_from(CHANGES),
)
def test_blocking_reason_predicts_the_error_message_of_modify(
    statuses: list[StepStatus], status: PlanStatus, change: Modification
) -> None:
    plan = make_plan(*(make_step(step_status) for step_status in statuses), status=status)
    why = blocking_reason(plan, change, make_context())
    if why is None:
        modify(plan, (change,), make_context())
    else:
        with pytest.raises(Refused) as refused:
            modify(plan, (change,), make_context())
        assert refused.value.message == why
