"""Forecasts: the range is the spread of earlier work, contains the middle, and has few digits."""

import re

from hypothesis import given
from hypothesis import strategies as st

from waybook.core.forecasts import (
    MIN_OTHER,
    MIN_SAME,
    Estimate,
    Forecast,
    estimate,
    make_forecast,
    rough_cost,
    rough_duration,
)

RATE = st.floats(min_value=1e-3, max_value=1e9)
RATES = st.lists(RATE, min_size=MIN_SAME, max_size=60)
LEFT = st.integers(min_value=1, max_value=20_000)
SHARE = st.floats(0, 1)
OWN = st.just(0.0) | RATE
SECONDS = st.floats(min_value=0, max_value=1e10)


def at_most(first: float, second: float) -> bool:
    """Return whether the first value is not greater than the second, except by rounding."""
    return first <= second * (1 + 1e-9)


def made(rates: list[float], left: int = 1, own: float = 0, share: float = 0) -> Estimate:
    result = estimate(rates, left, least=MIN_SAME, own=own, own_share=share)
    assert result is not None
    return result


@given(RATES, LEFT, OWN, SHARE)
def test_range_is_positive_and_contains_the_middle(
    rates: list[float], left: int, own: float, share: float
) -> None:
    result = made(rates, left, own, share)
    assert result.low > 0
    assert at_most(result.low, result.middle)
    assert at_most(result.middle, result.high)
    assert result.number == len(rates)


@given(RATES, LEFT)
def test_range_lies_between_lowest_and_highest_earlier_rate(rates: list[float], left: int) -> None:
    result = made(rates, left)
    assert at_most(left * min(rates), result.low)
    assert at_most(result.high, left * max(rates))


@given(st.lists(RATE, min_size=MIN_SAME, max_size=18), LEFT)
def test_range_of_up_to_18_plans_reaches_from_lowest_to_highest(
    rates: list[float], left: int
) -> None:
    result = made(rates, left)
    assert at_most(result.low, left * min(rates))
    assert at_most(left * max(rates), result.high)


@given(RATES, LEFT, LEFT, OWN, SHARE)
def test_forecast_is_not_longer_if_less_is_left(
    rates: list[float], first: int, second: int, own: float, share: float
) -> None:
    few, many = (made(rates, left, own, share) for left in sorted((first, second)))
    assert all(map(at_most, few[:3], many[:3]))


@given(RATES, RATE, SHARE, SHARE)
def test_range_is_not_wider_with_more_progress(
    rates: list[float], own: float, first: float, second: float
) -> None:
    early, late = (made(rates, 1, own, share) for share in sorted((first, second)))
    assert at_most(late.high / late.low, early.high / early.low)


@given(RATES, RATE, SHARE)
def test_middle_lies_between_own_and_typical_rate(
    rates: list[float], own: float, share: float
) -> None:
    typical = made(rates).middle
    middle = made(rates, 1, own, share).middle
    assert at_most(min(own, typical), middle)
    assert at_most(middle, max(own, typical))


@given(RATES, LEFT, st.floats(1, 1e6))
def test_forecast_grows_with_the_rates_of_earlier_plans(
    rates: list[float], left: int, factor: float
) -> None:
    short, long = made(rates, left), made([rate * factor for rate in rates], left)
    assert all(map(at_most, short[:3], long[:3]))


@given(st.lists(st.just(0.0) | RATE, max_size=MIN_OTHER - 1), LEFT, OWN, SHARE)
def test_too_few_earlier_plans_give_no_estimate(
    rates: list[float], left: int, own: float, share: float
) -> None:
    assert estimate(rates, left, least=MIN_OTHER, own=own, own_share=share) is None


@given(SECONDS)
def test_rough_durations_have_two_digits_and_one_unit(seconds: float) -> None:
    shown = re.fullmatch(r"([\d,.]+) (s|min|h|d)", rough_duration(seconds))
    assert shown
    digits = shown[1].replace(",", "").replace(".", "").strip("0")
    assert len(digits) <= 2
    size = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}[shown[2]]
    assert abs(float(shown[1].replace(",", "")) * size - seconds) <= max(0.5, seconds * 0.051)


@given(st.floats(min_value=1, max_value=1e15))
def test_rough_costs_have_at_most_two_significant_digits(micros: float) -> None:
    shown = rough_cost(micros).removeprefix("$").replace(",", "")
    assert len(shown.replace(".", "").strip("0")) <= 2
    assert abs(float(shown) * 1e6 - micros) <= max(0.5, micros * 0.051)


@given(RATES, LEFT, OWN, SHARE)
def test_shown_range_contains_the_shown_middle(
    rates: list[float], left: int, own: float, share: float
) -> None:
    def number(micros: float) -> float:
        return float(rough_cost(micros).removeprefix("$").replace(",", ""))

    middle, low, high, _ = made(rates, left, own, share)
    assert number(low) <= number(middle) <= number(high)


def test_no_remaining_work_gives_no_estimate() -> None:
    assert estimate([1.0] * MIN_OTHER, 0, least=MIN_OTHER) is None


def test_forecast_text_contains_time_cost_and_range() -> None:
    seconds = Estimate(11_400, 7_200, 18_000, 12)
    cost = Estimate(4_200_000, 4_200_000, 4_200_000, 12)
    made = Forecast(seconds=seconds, cost=cost, source="earlier plans")
    assert made.text == "3.2 h (2 to 5), $4.20"
    assert made.basis == "from 12 earlier plans"


def test_forecast_of_too_little_work_names_the_missing_number() -> None:
    early = make_forecast(None, None, "earlier plans", known=0, needed=5)
    assert early == Forecast(too_early="none of the 5 earlier plans that a forecast needs")
    cost = Estimate(1, 1, 1, 5)
    assert make_forecast(Estimate(0.4, 0, 0.9, 5), None, "plans", known=5, needed=5) is None
    known = make_forecast(None, cost, "plans", known=5, needed=5)
    assert known == Forecast(cost=cost, source="plans")
