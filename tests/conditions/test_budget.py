"""Every operation of a condition reduces the budget before the operation starts."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.conditions.condition import compile_condition
from waybook.conditions.values import (
    BUDGET,
    COMPARED_PAIR,
    RESERVED_PER_CONDITION,
    Budget,
    BudgetExceeded,
    Json,
    SharedBudget,
)

SAME = compile_condition("result.one == result.other")
#: Maximum cost of comparing two values, apart from the cost that grows with their size.
MIN_BUDGET = 10


@given(st.lists(st.integers(0, BUDGET // 3), max_size=12))
def test_condition_budget_allows_no_operation_after_a_refusal(costs: list[int]) -> None:
    budget, spent = Budget(), 0
    for cost in costs:
        if spent + cost > BUDGET:
            with pytest.raises(BudgetExceeded):
                budget.spend(cost, at=0)
            with pytest.raises(BudgetExceeded):
                budget.spend(1, at=0)
            assert budget.spent == BUDGET
            return
        budget.spend(cost, at=0)
        spent += cost
        assert budget.spent == spent


@pytest.mark.parametrize("size", [0, 1, 50, 500])
@pytest.mark.parametrize("kind", ["list", "map"])
def test_cost_of_comparing_lists_or_maps_grows_with_size(kind: str, size: int) -> None:
    keys = [f"k{number}" for number in range(size)]
    value: Json = [*keys] if kind == "list" else {key: key for key in keys}
    outcome = SAME.evaluate({"result": {"one": value, "other": value}})
    assert outcome.fired
    assert size * COMPARED_PAIR <= outcome.cost <= size * COMPARED_PAIR + COMPARED_PAIR + MIN_BUDGET


@pytest.mark.parametrize("kind", ["list", "map"])
def test_comparing_too_large_values_in_condition_exceeds_the_cost_budget(kind: str) -> None:
    keys = [f"k{number}" for number in range(BUDGET // COMPARED_PAIR)]
    value: Json = [*keys] if kind == "list" else {key: key for key in keys}
    outcome = SAME.evaluate({"result": {"one": value, "other": value}})
    assert (outcome.fired, outcome.cost) == (False, BUDGET)
    assert "too expensive" in str(outcome.error)


@given(st.lists(st.integers(0, BUDGET), min_size=1, max_size=50))
def test_conditions_of_a_step_share_a_cost_budget(costs: list[int]) -> None:
    shared, spent = SharedBudget(len(costs)), 0
    for cost in costs:
        budget = shared.next_budget()
        assert budget.limit >= RESERVED_PER_CONDITION
        with suppress(BudgetExceeded):
            budget.spend(cost, at=0)
        spent += budget.spent
    assert spent <= BUDGET


def test_single_condition_of_a_step_gets_the_full_cost_budget() -> None:
    assert SharedBudget(1).next_budget().limit == BUDGET


def test_condition_budget_error_shows_remaining_and_total_budget() -> None:
    with pytest.raises(BudgetExceeded) as exhausted:
        Budget(99_000).spend(99_001, at=7)
    assert str(exhausted.value).startswith(
        "too expensive: over the budget of 99000 operations (of 100000 for all conditions of the "
        "step) at position 7"
    )
