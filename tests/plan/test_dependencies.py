"""Dependencies between steps: no change of a plan lets a step wait forever."""

import pytest

from plan_builders import make_context, make_new_step
from waybook.errors import InvalidStepReference, NotModifiable
from waybook.plan.create import NewPlan, create
from waybook.plan.model import BranchAction, NewCondition, NewStep, Plan
from waybook.plan.modify import AddSteps, RemoveStep, modify
from waybook.plan.next_step import StepReady, next_step
from waybook.plan.submit import Submission, submit


def waiting_for(*orders: int) -> NewStep:
    return make_new_step(depends_on=orders)


def make_plan_of(*steps: NewStep, sequential: bool = False) -> Plan:
    made = NewPlan(name="p", research_question="q", steps=steps, sequential=sequential)
    return create(made, make_context()).plan


def taken(plan: Plan) -> tuple[Plan, int | None]:
    """Claim the next step; return the plan after the claim, and the number of the step."""
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


def test_dependents_inherit_the_dependencies_of_a_removed_step() -> None:
    plan = make_plan_of(waiting_for(), waiting_for(1), waiting_for(2))
    plan, first = taken(plan)
    plan = modify(plan, (RemoveStep(plan.steps[1].id),), make_context()).plan
    assert (first, taken(plan)[1]) == (1, None)
    assert plan.steps[1].depends_on == (plan.steps[0].id,)
    assert taken(done(plan, 1))[1] == 2


def test_steps_of_a_sequential_plan_are_claimed_in_order() -> None:
    plan = make_plan_of(waiting_for(), waiting_for(), waiting_for(), sequential=True)
    plan, first = taken(plan)
    assert (first, taken(plan)[1]) == (1, None)
    plan = modify(plan, (AddSteps((waiting_for(), waiting_for()), after=1),), make_context()).plan
    for order in (2, 3, 4, 5):
        plan, nothing = taken(plan)
        plan, claimed = taken(done(plan, order - 1))
        assert (nothing, claimed) == (None, order)


def test_explicit_dependencies_replace_the_sequential_order_of_a_step() -> None:
    plan = make_plan_of(
        waiting_for(), waiting_for(), waiting_for(1), waiting_for(), sequential=True
    )
    plan, _ = taken(plan)
    plan = done(plan, 1)
    plan, second = taken(plan)
    plan, third = taken(plan)
    assert (second, third, taken(plan)[1]) == (2, 3, None)
    assert taken(done(plan, 2))[1] is None
    assert taken(done(done(plan, 2), 3))[1] == 4


def test_sequential_step_does_not_wait_for_an_earlier_blocked_step() -> None:
    plan = make_plan_of(waiting_for(3), waiting_for(), waiting_for(), sequential=True)
    for order in (2, 3, 1):
        plan, claimed = taken(plan)
        plan = done(plan, order)
        assert claimed == order


def test_new_plan_with_circular_dependencies_is_refused() -> None:
    with pytest.raises(InvalidStepReference, match=r"\(steps: 2, 3\)") as refused:
        make_plan_of(waiting_for(), waiting_for(3), waiting_for(2))
    assert refused.value.details["stepOrders"] == [2, 3]
    with pytest.raises(InvalidStepReference, match="cycle"):
        make_plan_of(waiting_for(1))


def branch(*steps: NewStep) -> NewCondition:
    """Return a condition that adds these steps when the first step is completed."""
    return NewCondition(
        after_step_order=1, expression="true", action=BranchAction.ADD_STEPS, steps=steps
    )


def plan_with_branch(*steps: NewStep, added: tuple[NewStep, ...]) -> Plan:
    new = NewPlan(name="p", research_question="q", steps=steps, conditions=(branch(*added),))
    return create(new, make_context()).plan


def test_steps_added_by_a_condition_can_depend_on_any_step() -> None:
    added = (waiting_for(), waiting_for(2, 4))
    plan = plan_with_branch(waiting_for(), waiting_for(), waiting_for(1), added=added)
    old = [step.id for step in plan.steps]
    plan = done(plan, 1)
    first, second = plan.steps[1], plan.steps[2]
    assert second.depends_on == (first.id, old[1])
    assert [step.depends_on for step in plan.steps[3:]] == [(), (old[0], first.id, second.id)]


def test_step_added_by_condition_may_depend_on_later_steps() -> None:
    plan = plan_with_branch(waiting_for(), waiting_for(1), added=(waiting_for(3),))
    plan = done(plan, 1)
    assert plan.steps[1].depends_on == (plan.steps[2].id,)
    assert plan.steps[2].depends_on == (plan.steps[0].id,)


def test_condition_of_an_added_step_can_repeat_another_added_step() -> None:
    again = NewCondition(
        expression="result == 'weak'", action=BranchAction.REPEAT, from_step_order=2, max_repeats=1
    )
    added = (waiting_for(), make_new_step(depends_on=(2,), conditions=(again,)))
    plan = done(plan_with_branch(waiting_for(), waiting_for(), added=added), 1)
    draft, critique = plan.steps[1:3]
    assert plan.conditions[-1].from_step_id == draft.id
    plan = submit(
        done(plan, 2), critique.id, Submission(result_summary="weak"), make_context()
    ).plan
    assert len(plan.steps) == 6
    assert plan.steps[4].depends_on == (plan.steps[3].id,)


def test_dependency_of_a_step_that_a_condition_may_add_is_not_removable() -> None:
    plan = plan_with_branch(waiting_for(), waiting_for(), added=(waiting_for(3),))
    with pytest.raises(NotModifiable, match="depends on it"):
        modify(plan, (RemoveStep(plan.steps[1].id),), make_context())


@pytest.mark.parametrize("added", [(waiting_for(9),), (waiting_for(2),)])
def test_condition_adding_steps_with_invalid_dependencies_is_refused(
    added: tuple[NewStep, ...],
) -> None:
    with pytest.raises(InvalidStepReference):
        plan_with_branch(waiting_for(), added=added)
