import pytest

from decisions import decision
from plan_builders import ANN, a_moment, a_new_plan, a_new_step
from waybook.errors import BadExpression, InvalidInput, InvalidStepReference, TooLarge
from waybook.plan.create import NewCondition, NewPlan, create
from waybook.plan.model import BranchAction
from waybook.plan.states import PlanStatus, StepStatus


def a_new_condition(after: int = 1, expression: str = "true", **values: object) -> NewCondition:
    fields: dict[str, object] = {"action": BranchAction.CONTINUE, **values}
    return NewCondition(after_step_order=after, expression=expression, **fields)  # type: ignore[arg-type]  # names are NewCondition's own


def test_create_plan_is_planning_with_pending_steps_in_order() -> None:
    made = create(a_new_plan(a_new_step("One."), a_new_step("Two.")), a_moment())
    assert made.plan.status is PlanStatus.PLANNING
    assert [step.order for step in made.plan.steps] == [1, 2]
    assert [step.status for step in made.plan.steps] == [StepStatus.PENDING] * 2
    assert [step.attempt for step in made.plan.steps] == [1, 1]
    assert [made.plan.texts[s.id].instructions for s in made.plan.steps] == ["One.", "Two."]
    assert made.reply == made.plan


def test_create_plan_writes_single_audit_entry() -> None:
    made = create(a_new_plan(a_new_step()), a_moment(ANN))
    (entry,) = made.entries
    assert entry.details == {"action": "created", "steps": 1}
    assert [change.entity for change in entry.changes] == ["plan", "step", "session"]
    assert made.plan.seq == 1


def test_create_with_skill_execution_records_skill_execution_id() -> None:
    new = NewPlan(name="n", research_question="q", steps=(a_new_step(),), skill_execution_id="x")
    (entry,) = create(new, a_moment()).entries
    assert entry.details["skillExecutionId"] == "x"
    row = entry.changes[0].new
    assert isinstance(row, dict)
    assert row["skill_execution_id"] == "x"


@decision("A18")
def test_create_plan_without_steps_raises_invalid_input() -> None:
    empty = NewPlan(name="n", research_question="q", steps=())
    with pytest.raises(InvalidInput, match="at least one step"):
        create(empty, a_moment())


@decision("A22")
def test_create_plan_condition_orders_are_stored_as_step_ids() -> None:
    tied = a_new_condition(2, action=BranchAction.SKIP_TO, target_step_order=1)
    plan = create(a_new_plan(a_new_step(), a_new_step(), conditions=(tied,)), a_moment()).plan
    (condition,) = plan.conditions
    assert condition.step_id == plan.steps[1].id
    assert condition.target_step_id == plan.steps[0].id
    assert condition.position == 1


@pytest.mark.parametrize(
    "condition",
    [
        a_new_condition(0),
        a_new_condition(2),
        a_new_condition(1, action=BranchAction.SKIP_TO),
        a_new_condition(1, action=BranchAction.SKIP_TO, target_step_order=7),
    ],
)
def test_create_plan_condition_invalid_order_raises_invalid_step_reference(
    condition: NewCondition,
) -> None:
    with pytest.raises(InvalidStepReference) as refusal:
        create(a_new_plan(conditions=(condition,)), a_moment())
    assert refusal.value.details["totalSteps"] == 1


def test_create_plan_add_steps_branch_without_steps_raises_invalid_input() -> None:
    with pytest.raises(InvalidInput, match="at least one step"):
        create(a_new_plan(conditions=(a_new_condition(action=BranchAction.ADD_STEPS),)), a_moment())


def test_create_plan_invalid_condition_expression_raises_bad_expression() -> None:
    with pytest.raises(BadExpression):
        create(a_new_plan(conditions=(a_new_condition(expression="result."),)), a_moment())


@pytest.mark.parametrize(
    "new",
    [
        a_new_plan(*[a_new_step()] * 201),
        a_new_plan(conditions=(a_new_condition(),) * 51),
        a_new_plan(
            conditions=(
                a_new_condition(action=BranchAction.ADD_STEPS, steps=(a_new_step(),) * 201),
            )
        ),
    ],
)
def test_create_plan_beyond_limits_raises_too_large(new: NewPlan) -> None:
    with pytest.raises(TooLarge) as refusal:
        create(new, a_moment())
    assert refusal.value.code == "TOO_LARGE"


@pytest.mark.parametrize("schema", ["no object", {"type": "nonsense"}, {"$ref": "#"}])
def test_create_invalid_result_schema_in_step_or_branch_is_refused(schema: object) -> None:
    bad = a_new_step(result_schema=schema)
    later = a_new_condition(action=BranchAction.ADD_STEPS, steps=(bad,))
    with pytest.raises(InvalidInput):
        create(a_new_plan(bad), a_moment())
    with pytest.raises(InvalidInput):
        create(a_new_plan(conditions=(later,)), a_moment())
