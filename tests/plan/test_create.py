import pytest

from plan_builders import make_context, make_new_plan, make_new_step
from waybook.errors import InvalidInput, InvalidStepReference, TooLarge
from waybook.plan.create import NewPlan, create
from waybook.plan.model import BranchAction, NewCondition


def make_new_condition(after: int = 1, expression: str = "true", **values: object) -> NewCondition:
    fields: dict[str, object] = {"action": BranchAction.CONTINUE, **values}
    return NewCondition(after_step_order=after, expression=expression, **fields)  # type: ignore[arg-type]  # names are NewCondition's own


def test_create_plan_without_steps_raises_invalid_input() -> None:
    empty = NewPlan(name="n", research_question="q", steps=())
    with pytest.raises(InvalidInput, match="at least one step"):
        create(empty, make_context())


def test_condition_of_a_new_plan_refers_to_steps_by_id() -> None:
    tied = make_new_condition(1, action=BranchAction.SKIP_TO, target_step_order=2)
    plan = create(
        make_new_plan(make_new_step(), make_new_step(), conditions=(tied,)), make_context()
    ).plan
    (condition,) = plan.conditions
    assert condition.step_id == plan.steps[0].id
    assert condition.target_step_id == plan.steps[1].id
    assert condition.position == 1


def test_condition_that_skips_backward_is_refused() -> None:
    back = make_new_condition(2, action=BranchAction.SKIP_TO, target_step_order=1)
    new = make_new_plan(make_new_step(), make_new_step(), conditions=(back,))
    with pytest.raises(InvalidStepReference, match="use repeat"):
        create(new, make_context())


def test_add_steps_condition_without_steps_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one step"):
        create(
            make_new_plan(conditions=(make_new_condition(action=BranchAction.ADD_STEPS),)),
            make_context(),
        )


@pytest.mark.parametrize(
    "new",
    [
        make_new_plan(*[make_new_step()] * 201),
        make_new_plan(conditions=(make_new_condition(),) * 51),
        make_new_plan(
            conditions=(
                make_new_condition(action=BranchAction.ADD_STEPS, steps=(make_new_step(),) * 201),
            )
        ),
    ],
)
def test_plan_with_too_many_steps_or_conditions_raises_too_large(new: NewPlan) -> None:
    with pytest.raises(TooLarge) as refusal:
        create(new, make_context())
    assert refusal.value.code == "TOO_LARGE"


@pytest.mark.parametrize("schema", ["no object", {"type": "nonsense"}, {"$ref": "#"}])
def test_plan_with_an_invalid_result_schema_is_refused(schema: object) -> None:
    bad = make_new_step(result_schema=schema)
    later = make_new_condition(action=BranchAction.ADD_STEPS, steps=(bad,))
    with pytest.raises(InvalidInput):
        create(make_new_plan(bad), make_context())
    with pytest.raises(InvalidInput):
        create(make_new_plan(conditions=(later,)), make_context())
