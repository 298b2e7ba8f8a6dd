"""Conditions with the action `repeat`, and conditions of steps that are added later."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import make_context, make_new_step, statuses
from waybook.errors import InvalidInput, InvalidStepReference, TooLarge
from waybook.json_values import Json
from waybook.plan.create import NewPlan, create
from waybook.plan.model import (
    MAX_STEPS,
    BranchAction,
    BranchOutcome,
    NewCondition,
    NewStep,
    OnExhausted,
    Plan,
    PlanStatus,
    StepStatus,
)
from waybook.plan.repeat import current_loops, round_of, texts_to_repeat
from waybook.plan.submit import StepDone, Submission, submit

S = StepStatus


def plan_with(*steps: NewStep, conditions: tuple[NewCondition, ...] = ()) -> Plan:
    new = NewPlan(name="Loop", research_question="?", steps=steps, conditions=conditions)
    return create(new, make_context()).plan


def repeat(after: int | None, first: int | None, most: int = 3) -> NewCondition:
    return NewCondition(
        after_step_order=after,
        expression="result == 'again'",
        action=BranchAction.REPEAT,
        from_step_order=first,
        max_repeats=most,
    )


def submitted(plan: Plan, order: int, result: Json) -> tuple[Plan, StepDone]:
    step = plan.steps[order - 1]
    done = submit(plan, step.id, Submission(result_summary=result), make_context())
    return done.plan, done.reply


@given(st.integers(1, 8))
def test_repeat_condition_adds_at_most_the_maximum_number_of_copies(most: int) -> None:
    plan = plan_with(make_new_step(), conditions=(repeat(1, None, most),))
    for order in range(1, most + 1):
        plan, _ = submitted(plan, order, "again")
        assert len(plan.steps) == order + 1
    plan, done = submitted(plan, most + 1, "again")
    assert plan.status is PlanStatus.COMPLETED
    assert "not repeated again" in (done.branches[0].note or "")


def test_repeat_condition_copies_dependencies_and_conditions() -> None:
    stop = NewCondition(after_step_order=1, expression="result == 'stop'", action=BranchAction.FAIL)
    plan = plan_with(
        make_new_step("First."),
        replace(make_new_step("Second."), depends_on=(1,)),
        replace(make_new_step("Last."), depends_on=(2,)),
        conditions=(stop, repeat(2, 1)),
    )
    plan, _ = submitted(plan, 1, "ok")
    plan, _ = submitted(plan, 2, "again")
    copies = plan.steps[2:4]
    assert copies[1].depends_on == (copies[0].id,)
    assert plan.steps[4].depends_on == (plan.steps[1].id, copies[0].id, copies[1].id)
    plan, done = submitted(plan, 3, "stop")
    assert done.branches[0].outcome is BranchOutcome.FIRED
    assert plan.status is PlanStatus.FAILED


def exhausted(then: OnExhausted | None, *, dependent: bool = False) -> tuple[Plan, StepDone]:
    """Return a plan whose condition is still true after the only repetition that it allows."""
    loop = replace(repeat(1, None, 1), on_exhausted=then)
    last = make_new_step("Write.", depends_on=(1,) if dependent else ())
    plan = plan_with(make_new_step("Draft."), last, conditions=(loop,))
    plan, _ = submitted(plan, 1, "again")
    return submitted(plan, 2, "again")


@pytest.mark.parametrize("then", [None, OnExhausted.CONTINUE])
def test_plan_continues_by_default_after_the_last_repetition(then: OnExhausted | None) -> None:
    plan, done = exhausted(then)
    branch = done.branches[0].as_json()
    assert branch["onExhausted"] == "continue"
    assert branch["note"] == (
        """repeated once, and result == 'again' is still true (result = "again"): not repeated """
        "again"
    )
    assert statuses(plan) == [S.COMPLETED, S.COMPLETED, S.PENDING]
    assert [loop.is_exhausted for loop in current_loops(plan)] == [True]


def test_plan_fails_after_the_last_repetition_with_on_exhausted_fail() -> None:
    plan, done = exhausted(OnExhausted.FAIL)
    assert plan.status is PlanStatus.FAILED
    assert plan.fail_reason == (
        """step 2 was repeated once, and result == 'again' is still true (result = "again")"""
    )
    assert done.branches[0].as_json()["onExhausted"] == "fail"


def test_variable_name_in_quotes_is_not_reported_as_a_variable() -> None:
    loop = replace(repeat(1, None), expression="result.kind == 'step' && confidence < 0.5")
    plan = plan_with(make_new_step(), conditions=(loop,))
    submission = Submission(result_summary={"kind": "step"}, confidence=0.25)
    done = submit(plan, plan.steps[0].id, submission, make_context()).reply
    assert done.branches[0].values == {"result.kind": "step", "confidence": 0.25}


def test_long_values_reported_for_a_repeat_condition_are_shortened() -> None:
    loop = replace(repeat(1, None), expression="size(result) > 1")
    plan, done = submitted(plan_with(make_new_step(), conditions=(loop,)), 1, ["x" * 999, 1])
    (text,) = done.branches[0].values.values()
    assert isinstance(text, str)
    assert len(text) == 201
    begun = round_of(plan, plan.steps[1])
    assert begun
    assert begun.values == {"result": text}


def test_repeat_condition_beyond_the_step_limit_has_outcome_error() -> None:
    steps = (make_new_step(),) * (MAX_STEPS - 1)
    plan = plan_with(*steps, conditions=(repeat(2, 1),))
    plan, _ = submitted(plan, 1, "ok")
    plan, done = submitted(plan, 2, "again")
    assert done.branches[0].outcome is BranchOutcome.ERROR
    assert len(plan.steps) == MAX_STEPS - 1


def test_repeat_condition_that_starts_at_a_later_step_adds_no_steps() -> None:
    plan = plan_with(make_new_step(), make_new_step(), conditions=(repeat(1, 2),))
    plan, done = submitted(plan, 1, "again")
    assert len(plan.steps) == 2
    assert done.branches[0].note


@pytest.mark.parametrize("most", [None, 0, 101])
def test_repeat_condition_without_a_valid_maximum_is_refused(most: int | None) -> None:
    with pytest.raises(InvalidInput, match="max"):
        plan_with(make_new_step(), conditions=(replace(repeat(1, None), max_repeats=most),))


def test_repeat_condition_that_starts_at_an_unknown_step_is_refused() -> None:
    with pytest.raises(InvalidStepReference, match="fromStepOrder"):
        plan_with(make_new_step(), conditions=(repeat(1, 2),))


def test_texts_are_loaded_only_for_steps_that_a_condition_may_repeat() -> None:
    plan = plan_with(*(make_new_step(),) * 4, conditions=(repeat(3, 2),))
    ids = [step.id for step in plan.steps]
    assert texts_to_repeat(plan, ids[2]) == {ids[1], ids[2]}
    assert texts_to_repeat(plan, None) == {ids[1], ids[2]}
    assert texts_to_repeat(plan, ids[0]) == set()


def test_condition_of_a_step_added_by_a_condition_is_evaluated() -> None:
    inner = NewCondition(
        expression="result == 'skip'", action=BranchAction.SKIP_TO, target_step_order=4
    )
    outer = NewCondition(
        after_step_order=1,
        expression="result == 'add'",
        action=BranchAction.ADD_STEPS,
        steps=(replace(make_new_step("Added."), conditions=(inner,)),),
    )
    plan = plan_with(make_new_step(), make_new_step(), make_new_step(), conditions=(outer,))
    plan, _ = submitted(plan, 1, "add")
    plan, _ = submitted(plan, 2, "skip")
    assert statuses(plan) == [S.COMPLETED, S.COMPLETED, S.SKIPPED, S.PENDING]


def test_dependent_steps_also_wait_for_steps_added_by_a_condition() -> None:
    more = NewCondition(
        after_step_order=1,
        expression="true",
        action=BranchAction.ADD_STEPS,
        steps=(make_new_step("Added."),),
    )
    plan = plan_with(make_new_step(), replace(make_new_step(), depends_on=(1,)), conditions=(more,))
    plan, _ = submitted(plan, 1, "done")
    assert plan.steps[2].depends_on == (plan.steps[0].id, plan.steps[1].id)


def test_conditions_nested_too_deeply_are_refused() -> None:
    condition = NewCondition(
        expression="true", action=BranchAction.ADD_STEPS, steps=(make_new_step(),)
    )
    for _ in range(4):
        step = replace(make_new_step(), conditions=(condition,))
        condition = replace(condition, steps=(step,))
    with pytest.raises(TooLarge, match="nested"):
        plan_with(make_new_step(), conditions=(replace(condition, after_step_order=1),))
