import pytest

from plan_builders import ids, make_plan, make_step
from waybook.errors import StalePlan
from waybook.plan.model import StepId
from waybook.plan.ordering import validate_order

PLAN = make_plan(make_step(), make_step(), make_step())


@pytest.mark.parametrize(
    ("named", "missing", "unknown", "repeated"),
    [
        (ids(1, 2), ["s3"], [], []),
        ((*ids(1, 2, 3), StepId("x")), [], ["x"], []),
        (ids(1, 2, 2), ["s3"], [], ["s2"]),
        (ids(1, 2, 3, 3), [], [], ["s3"]),
    ],
)
def test_step_order_with_missing_or_repeated_steps_raises_stale_plan(
    named: tuple[StepId, ...], missing: list[str], unknown: list[str], repeated: list[str]
) -> None:
    with pytest.raises(StalePlan) as refusal:
        validate_order(PLAN, list(named))
    assert refusal.value.details == {"missing": missing, "unknown": unknown, "repeated": repeated}
