import pytest

from decision_proofs import decision
from plan_builders import ids, make_plan, make_step
from waybook.errors import InvalidStepReference, StalePlan
from waybook.plan.model import StepId
from waybook.plan.ordering import insertion_point, validate_order

PLAN = make_plan(make_step(), make_step(), make_step())


@pytest.mark.parametrize(("after", "place"), [(None, 3), (0, 0), (2, 2), (3, 3)])
def test_new_steps_are_inserted_after_a_step_or_at_end(after: int | None, place: int) -> None:
    assert insertion_point(PLAN, after) == place


@pytest.mark.parametrize("after", [-1, 4])
def test_inserting_after_a_nonexistent_step_raises_invalid_step_reference(after: int) -> None:
    with pytest.raises(InvalidStepReference) as refusal:
        insertion_point(PLAN, after)
    assert refusal.value.details == {"insertAfterOrder": after, "totalSteps": 3}


@decision("A31")
@pytest.mark.parametrize(
    ("named", "missing", "unknown", "repeated"),
    [
        (ids(1, 2), ["s3"], [], []),
        ((*ids(1, 2, 3), StepId("x")), [], ["x"], []),
        (ids(1, 2, 2), ["s3"], [], ["s2"]),
        (ids(1, 2, 3, 3), [], [], ["s3"]),
    ],
)
def test_incomplete_or_repeated_step_order_raises_stale_plan(
    named: tuple[StepId, ...], missing: list[str], unknown: list[str], repeated: list[str]
) -> None:
    with pytest.raises(StalePlan) as refusal:
        validate_order(PLAN, list(named))
    assert refusal.value.details == {
        "missing": missing,
        "unknown": unknown,
        "repeated": repeated,
    }


def test_complete_new_step_order_is_accepted_unchanged() -> None:
    assert validate_order(PLAN, list(ids(3, 1, 2))) == list(ids(3, 1, 2))
