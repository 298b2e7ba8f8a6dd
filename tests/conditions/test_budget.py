"""What an evaluation pays: everything before it is done, and never more than there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.conditions.budget import BUDGET, COMPARED_PAIR, Budget, Exhausted
from waybook.conditions.condition import compile_condition
from waybook.conditions.values import Json

SAME = compile_condition("result.one == result.other")
#: What a comparison costs that compares nothing.
LEAST = 10


@given(st.lists(st.integers(0, BUDGET // 3), max_size=12))
def test_who_would_spend_more_than_is_left_is_stopped_for_good(costs: list[int]) -> None:
    budget, spent = Budget(), 0
    for cost in costs:
        if spent + cost > BUDGET:
            with pytest.raises(Exhausted):
                budget.spend(cost, at=0)
            with pytest.raises(Exhausted):
                budget.spend(1, at=0)
            assert budget.spent == BUDGET
            return
        budget.spend(cost, at=0)
        spent += cost
        assert budget.spent == spent


@pytest.mark.parametrize("size", [0, 1, 50, 500])
@pytest.mark.parametrize("kind", ["list", "map"])
def test_comparing_costs_something_for_every_pair(kind: str, size: int) -> None:
    keys = [f"k{number}" for number in range(size)]
    value: Json = [*keys] if kind == "list" else {key: key for key in keys}
    outcome = SAME.evaluate({"result": {"one": value, "other": value}})
    assert outcome.fired
    assert size * COMPARED_PAIR <= outcome.cost <= size * COMPARED_PAIR + COMPARED_PAIR + LEAST


@pytest.mark.parametrize("kind", ["list", "map"])
def test_what_is_too_large_to_compare_is_not_compared(kind: str) -> None:
    keys = [f"k{number}" for number in range(BUDGET // COMPARED_PAIR)]
    value: Json = [*keys] if kind == "list" else {key: key for key in keys}
    outcome = SAME.evaluate({"result": {"one": value, "other": value}})
    assert (outcome.fired, outcome.cost) == (False, BUDGET)
    assert "too expensive" in str(outcome.error)
