from hypothesis import given
from hypothesis import strategies as st

from waybook.core.usage import Totals
from waybook.plan.model import Budget
from waybook.plan.progress import budget_json, shares, warning

TOKENS = Budget(tokens=1_000)
BOTH = Budget(tokens=1_000, cost_micros=2_000_000)


def test_budget_json_contains_usage_limit_and_percent() -> None:
    used = Totals(input_tokens=300, output_tokens=99, cost_micros=500_000, results=2)
    assert budget_json(BOTH, used) == {
        "tokens": {"used": 399, "of": 1_000, "percent": 39},
        "costUsd": {"used": 0.5, "of": 2.0, "percent": 25},
    }


def test_budget_json_omits_tokens_or_cost_without_a_limit() -> None:
    assert set(budget_json(TOKENS, Totals())) == {"tokens"}
    assert set(budget_json(Budget(cost_micros=1), Totals())) == {"costUsd"}


def test_budget_warning_differs_at_80_percent_and_above_100_percent() -> None:
    warnings = [
        budget_json(TOKENS, Totals(input_tokens=used)).get("warning") for used in (799, 800)
    ]
    assert warnings == [None, "80 % of the plan's tokens are used: keep the rest short."]
    exactly, beyond = (
        str(budget_json(TOKENS, Totals(output_tokens=n))["warning"]) for n in (1_000, 1_001)
    )
    assert exactly.startswith("100 % of the plan's tokens are used")
    assert beyond.startswith("The plan is over its budget of tokens (100 %)")


def test_budget_warning_reports_tokens_and_cost_together() -> None:
    used = Totals(input_tokens=900, cost_micros=3_000_000)
    message = str(budget_json(BOTH, used)["warning"])
    assert message.startswith("90 % of the plan's tokens are used")
    assert "over its budget of money (150 %)" in message


@given(st.integers(0, 10**15), st.integers(1, 10**15))
def test_budget_reaches_100_percent_only_when_used_up(used: int, of: int) -> None:
    (part,) = shares(Budget(tokens=of), Totals(input_tokens=used))
    assert (part.percent >= 100) is (used >= of)
    assert (warning(part) is not None) is (100 * used >= 80 * of)
