"""Edits that change no status: titles, dependencies and the budget."""

import pytest

from plan_builders import changes_of, make_context, make_plan, make_step, step_id
from waybook.errors import InvalidStepReference, InvalidTransition
from waybook.plan.draft import Decision
from waybook.plan.model import Budget, Plan, StepStatus
from waybook.plan.modify import Modification, SetBudget, SetDependencies, SetTitle, modify


def modified(plan: Plan, *modifications: Modification) -> Decision[Plan]:
    return modify(plan, modifications, make_context())


def test_set_title_changes_only_the_title_and_the_revision() -> None:
    plan = make_plan(make_step(), make_step())
    done = modified(plan, SetTitle(step_id(2), "Weigh"))
    assert [step.title for step in done.plan.steps] == [plan.steps[0].title, "Weigh"]
    assert done.plan.revision == plan.revision + 1
    assert done.entries[-1].details["action"] == "set_title"
    assert {change.field for change in changes_of(done)} >= {"title", "revision"}
    assert modified(done.plan, SetTitle(step_id(2), None)).plan.steps[1].title is None


def test_set_dependencies_turns_positions_into_step_ids() -> None:
    plan = make_plan(make_step(), make_step(), make_step())
    done = modified(plan, SetDependencies(step_id(3), (1, 1, 2)))
    assert done.plan.steps[2].depends_on == (step_id(1), step_id(2))
    assert modified(done.plan, SetDependencies(step_id(3), ())).plan.steps[2].depends_on == ()


@pytest.mark.parametrize("orders", [(0,), (4,), (2,)])
def test_set_dependencies_refuses_unknown_positions_and_cycles(orders: tuple[int, ...]) -> None:
    plan = make_plan(make_step(), make_step(), make_step())
    plan = modified(plan, SetDependencies(step_id(2), (1,))).plan
    with pytest.raises(InvalidStepReference):
        modified(plan, SetDependencies(step_id(1), orders))


@pytest.mark.parametrize("change", [SetTitle(step_id(1), "x"), SetDependencies(step_id(1), ())])
def test_edit_of_a_started_step_raises_invalid_transition(change: Modification) -> None:
    plan = make_plan(make_step(StepStatus.IN_PROGRESS), make_step())
    with pytest.raises(InvalidTransition, match="pending"):
        modified(plan, change)


def test_set_budget_replaces_and_removes_the_budget() -> None:
    plan = make_plan(make_step())
    done = modified(plan, SetBudget(Budget(tokens=5)))
    assert done.plan.budget == Budget(tokens=5)
    changes = [change for change in changes_of(done) if change.field == "budget"]
    assert [(change.old, change.new) for change in changes] == [
        (None, {"tokens": 5, "cost_micros": None})
    ]
    assert modified(done.plan, SetBudget(None)).plan.budget is None
