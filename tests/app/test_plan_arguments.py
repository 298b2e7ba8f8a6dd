"""Exported arguments of `create_research_plan` recreate a plan and its conditions."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from plan_builders import ANN, NOON, make_context, make_new_plan, make_new_step
from waybook.app.queries.work_export import ExportedRows, plan_arguments
from waybook.app.tools.plans.edit import CreateResearchPlan
from waybook.core.changes import replay
from waybook.json_values import Body
from waybook.plan.create import NewPlan, create
from waybook.plan.draft import Decision
from waybook.plan.model import BranchAction, NewCondition, NewStep, OnExhausted
from waybook.plan.next_step import next_step
from waybook.plan.submit import Submission, submit

STEPS = 4
EXPRESSIONS = st.sampled_from(("true", "result.count == 0", "confidence < 0.5"))


@st.composite
def conditions(draw: st.DrawFn, order: int, count: int, depth: int = 2) -> NewCondition:
    """Generate a condition with exactly the parameters of its action."""
    unusable = {
        *([] if order < count else [BranchAction.SKIP_TO]),
        *([] if depth else [BranchAction.ADD_STEPS]),
    }
    action = draw(st.sampled_from([a for a in BranchAction if a not in unusable]))
    condition = NewCondition(
        expression=draw(EXPRESSIONS), action=action, reason=draw(st.none() | st.just("Because."))
    )
    if action is BranchAction.SKIP_TO:
        return replace(condition, target_step_order=draw(st.integers(order + 1, count)))
    if action is BranchAction.REPEAT:
        first, most = draw(st.none() | st.integers(1, count)), draw(st.integers(1, 100))
        then = draw(st.none() | st.sampled_from(OnExhausted))
        return replace(condition, from_step_order=first, max_repeats=most, on_exhausted=then)
    if action is BranchAction.ADD_STEPS:
        added = draw(st.integers(1, 3))
        places = range(order + 1, order + added + 1)
        more = [draw(steps(place, count + added, depth - 1)) for place in places]
        return replace(condition, steps=tuple(more))
    return condition


@st.composite
def steps(draw: st.DrawFn, order: int, count: int, depth: int = 0) -> NewStep:
    before = st.sets(st.integers(1, order - 1), max_size=2) if order > 1 else st.just(set[int]())
    return replace(
        make_new_step(),
        title=draw(st.none() | st.just("Look")),
        stall_seconds=draw(st.none() | st.integers(1, 100_000)),
        depends_on=tuple(sorted(draw(before))),
        max_attempts=draw(st.none() | st.integers(1, 100)),
        required_sources=draw(st.none() | st.integers(1, 50)),
        conditions=tuple(draw(st.lists(conditions(order, count, depth), max_size=2)))
        if depth
        else (),
    )


@st.composite
def new_plans(draw: st.DrawFn) -> NewPlan:
    orders = draw(st.lists(st.integers(1, STEPS), max_size=5))
    return make_new_plan(
        *(draw(steps(order, STEPS)) for order in range(1, STEPS + 1)),
        conditions=tuple(
            replace(draw(conditions(order, STEPS)), after_step_order=order) for order in orders
        ),
    )


def arguments_after(*decisions: Decision[object]) -> Body:
    plan = decisions[-1].plan
    changes = [
        change for decision in decisions for entry in decision.entries for change in entry.changes
    ]
    exported = ExportedRows(
        kind="plan", id=plan.id, name=plan.name, now=NOON, seq=plan.seq, rows=replay(changes)
    )
    return plan_arguments(exported)


def parsed(arguments: Body) -> tuple[tuple[NewStep, ...], tuple[NewCondition, ...]]:
    args = CreateResearchPlan.model_validate(arguments)
    return (
        tuple(step.new_step() for step in args.steps or ()),
        tuple(condition.new_condition() for condition in args.branching_conditions or ()),
    )


@given(new_plans())
def test_exported_arguments_of_a_plan_recreate_steps_and_conditions(new: NewPlan) -> None:
    assert parsed(arguments_after(create(new, make_context(ANN)))) == (new.steps, new.conditions)


def test_recreated_plan_keeps_the_remaining_repetitions() -> None:
    repeat = NewCondition(
        expression="true", action=BranchAction.REPEAT, after_step_order=1, max_repeats=2
    )
    decisions: list[Decision[object]] = [
        create(make_new_plan(make_new_step(), conditions=(repeat,)), make_context(ANN))
    ]
    for left in (1, 0):
        plan = decisions[-1].plan
        decisions.append(next_step(plan, make_context(ANN)))
        plan = decisions[-1].plan
        current = plan.steps[-1]
        decisions.append(
            submit(plan, current.id, Submission(result_summary="x"), make_context(ANN))
        )
        made, kept = parsed(arguments_after(*decisions))
        assert len(made) == 3 - left
        assert [condition.max_repeats for condition in kept] == ([left] if left else [])
