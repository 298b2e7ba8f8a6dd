"""Dependencies between steps: after any change, no step waits forever."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import make_context, make_new_step
from waybook.errors import InvalidInput, InvalidStepReference
from waybook.plan.create import NewPlan, create
from waybook.plan.model import BranchAction, NewCondition, NewStep, Plan, StepId
from waybook.plan.modify import AddSteps, RemoveStep, ReorderSteps, modify
from waybook.plan.next_step import NothingPending, StepReady, next_step
from waybook.plan.states import TERMINAL_STEP
from waybook.plan.submit import Submission, submit


def waiting_for(*orders: int) -> NewStep:
    return make_new_step(depends_on=orders)


def make_plan_of(*steps: NewStep) -> Plan:
    made = NewPlan(name="p", research_question="q", steps=steps)
    return create(made, make_context()).plan


def taken(plan: Plan) -> tuple[Plan, int | None]:
    """Claim the next step; return the changed plan and the step's number."""
    decision = next_step(plan, make_context(), another=True)
    reply = decision.reply
    return decision.plan, reply.step.order if isinstance(reply, StepReady) else None


def done(plan: Plan, order: int) -> Plan:
    step = plan.steps[order - 1]
    submission = Submission(result_summary="done", attempt=step.attempt)
    return submit(plan, step.id, submission, make_context()).plan


def test_step_is_claimable_only_after_all_dependencies_are_done() -> None:
    plan = make_plan_of(waiting_for(3), waiting_for(), waiting_for())
    plan, second = taken(plan)
    plan, third = taken(plan)
    plan, nothing = taken(plan)
    assert (second, third, nothing) == (2, 3, None)
    plan, first = taken(done(plan, 3))
    assert first == 1


def test_next_step_lists_waiting_steps_if_none_is_free() -> None:
    plan, _ = taken(make_plan_of(waiting_for(), waiting_for(1)))
    reply = next_step(plan, make_context(), another=True).reply
    assert isinstance(reply, NothingPending)
    assert [step.order for step in reply.waiting] == [2]


def test_reordered_steps_still_wait_for_dependencies() -> None:
    plan = make_plan_of(waiting_for(), waiting_for(1))
    ids = tuple(step.id for step in plan.steps)
    plan = modify(plan, (ReorderSteps(ids[::-1]),), make_context()).plan
    assert taken(plan)[1] == 2


def test_remove_step_drops_dependencies_on_removed_step() -> None:
    plan = make_plan_of(waiting_for(), waiting_for(1))
    plan = modify(plan, (RemoveStep(plan.steps[0].id),), make_context()).plan
    assert taken(plan)[1] == 1
    assert plan.steps[0].depends_on == ()


def test_dependencies_of_added_steps_use_numbers_after_insertion() -> None:
    plan = make_plan_of(waiting_for(), waiting_for())
    plan = modify(plan, (AddSteps((waiting_for(3),), after=1),), make_context()).plan
    assert plan.steps[1].depends_on == (plan.steps[2].id,)


@pytest.mark.parametrize("orders", [0, 3, -1])
def test_new_plan_with_dependency_on_unknown_step_is_refused(orders: int) -> None:
    with pytest.raises(InvalidStepReference, match="1 to 2"):
        make_plan_of(waiting_for(), waiting_for(orders))


def test_new_plan_with_circular_dependencies_is_refused() -> None:
    with pytest.raises(InvalidStepReference, match=r"\(steps: 2, 3\)") as refused:
        make_plan_of(waiting_for(), waiting_for(3), waiting_for(2))
    assert refused.value.details["stepOrders"] == [2, 3]
    with pytest.raises(InvalidStepReference, match="cycle"):
        make_plan_of(waiting_for(1))


def test_add_steps_condition_with_dependencies_is_refused() -> None:
    branch = NewCondition(
        after_step_order=1,
        expression="true",
        action=BranchAction.ADD_STEPS,
        steps=(waiting_for(1),),
    )
    new_plan = NewPlan(
        name="p", research_question="q", steps=(waiting_for(),), conditions=(branch,)
    )
    with pytest.raises(InvalidInput, match="branch"):
        create(new_plan, make_context())


@st.composite
def waits(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Generate dependencies without cycles, in which a step may depend on a later step."""
    count = draw(st.integers(1, 8))
    rank = draw(st.permutations(range(count)))
    return [
        tuple(
            other + 1 for other in range(count) if rank[other] < rank[step] and draw(st.booleans())
        )
        for step in range(count)
    ]


@given(waits(), st.randoms(use_true_random=False))
def test_next_step_is_never_a_step_with_open_dependencies(
    dependencies: list[tuple[int, ...]], chance: Random
) -> None:
    plan = make_plan_of(*(waiting_for(*orders) for orders in dependencies))
    held: list[int] = []
    while not all(step.status in TERMINAL_STEP for step in plan.steps):
        plan, order = taken(plan)
        if order is not None:
            held.append(order)
            by_id = {step.id: step for step in plan.steps}
            before: tuple[StepId, ...] = plan.steps[order - 1].depends_on
            assert all(by_id[earlier].status in TERMINAL_STEP for earlier in before)
        if order is None or chance.random() < 0.5:
            plan = done(plan, held.pop())
    assert taken(plan)[1] is None
