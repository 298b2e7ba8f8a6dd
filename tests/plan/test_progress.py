from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import make_context, make_new_step, make_plan, make_step, step_id
from waybook.plan.model import CLOSED_PLAN, PlanState, PlanStatus, StepStatus
from waybook.plan.modify import AddSteps, modify
from waybook.plan.progress import current_step, percent, plan_outcome, plan_progress

S = StepStatus


@given(st.integers(1, 400).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_progress_percentage_is_rounded_half_up(counts: tuple[int, int]) -> None:
    done, total = counts
    exact = Decimal(100 * done) / Decimal(total)
    assert percent(done, total) == int(exact.quantize(Decimal(1), ROUND_HALF_UP))


def test_progress_percentage_of_zero_steps_is_zero() -> None:
    assert percent(0, 0) == 0


def test_current_step_is_the_step_in_review_or_the_first_in_progress() -> None:
    both = make_plan(make_step(S.IN_PROGRESS), make_step(S.AWAITING_INPUT))
    assert (current_step(both) or both).id == step_id(2)
    running = make_plan(make_step(S.COMPLETED), make_step(S.IN_PROGRESS), make_step(S.IN_PROGRESS))
    assert (current_step(running) or running).id == step_id(2)
    assert current_step(make_plan(make_step())) is None


def test_failed_steps_are_neither_done_nor_pending_nor_active() -> None:
    plan = make_plan(make_step(S.FAILED), make_step(S.COMPLETED), make_step(S.SKIPPED), make_step())
    assert plan_progress(plan).done == 2
    assert [step.order for step in plan.steps_with_status(S.FAILED)] == [1]
    assert [step.order for step in plan.steps_with_status(S.PENDING)] == [4]


def test_adding_steps_leaves_number_of_done_steps_unchanged() -> None:
    plan = make_plan(make_step(S.COMPLETED), make_step())
    decision_ = modify(plan, (AddSteps((make_new_step(), make_new_step())),), make_context())
    assert plan_progress(decision_.plan).done == plan_progress(plan).done == 1
    assert percent(1, 4) < percent(1, 2)
    assert decision_.entries[0].details["scope"] == {"before": 2, "added": 2, "after": 4}


@pytest.mark.parametrize(
    ("state", "steps", "outcome"),
    [
        (PlanState.FAILED, [S.COMPLETED], "failed"),
        (PlanState.CANCELED, [S.FAILED, S.PENDING], "canceled"),
        (PlanState.COMPLETED, [S.COMPLETED, S.SKIPPED], "completed"),
        (PlanState.COMPLETED, [S.COMPLETED, S.FAILED], "completed_with_failures"),
        (PlanState.EXECUTING, [S.FAILED, S.PENDING], None),
    ],
)
def test_plan_outcome_depends_on_plan_status_and_failed_steps(
    state: PlanState, steps: list[StepStatus], outcome: str | None
) -> None:
    assert plan_outcome(state, steps) == outcome


def test_stalled_plan_is_not_closed_and_has_no_outcome() -> None:
    assert PlanStatus.STALLED not in CLOSED_PLAN
    assert plan_outcome(PlanState.STALLED, [S.IN_PROGRESS]) is None
