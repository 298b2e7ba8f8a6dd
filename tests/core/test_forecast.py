"""Forecasts: never negative, within the range of earlier runs, and increasing with the work."""

from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from waybook.core.durations import (
    MIN_RUNS,
    MIN_UNITS,
    Estimate,
    Forecast,
    estimate_median,
    estimate_sum,
    make_forecast,
    quantile,
)

VALUES = st.floats(min_value=0, max_value=1e9, allow_nan=False)
UNITS = st.lists(VALUES, min_size=MIN_UNITS, max_size=60)
RUNS = st.lists(VALUES, min_size=MIN_RUNS, max_size=60)
COUNTS = st.integers(min_value=1, max_value=20_000)


def at_most(first: float, second: float) -> bool:
    """Return whether the first value is not greater than the second, except by rounding."""
    return first <= second or isclose(first, second, rel_tol=1e-9, abs_tol=1e-6)


@given(st.lists(VALUES, min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_quantile_is_between_the_smallest_and_the_largest_value(
    values: list[float], first: float, second: float
) -> None:
    low, high = (quantile(values, share) for share in sorted((first, second)))
    assert at_most(min(values), low)
    assert at_most(low, high)
    assert at_most(high, max(values))


@given(RUNS)
def test_forecast_stays_within_the_range_of_earlier_runs(values: list[float]) -> None:
    made = estimate_median(values)
    assert made is not None
    bounds = (min(values), made.low, made.middle, made.high, max(values))
    assert all(map(at_most, bounds, bounds[1:]))


@given(RUNS, st.floats(0, 1e6))
def test_forecast_grows_with_the_durations_or_costs_of_earlier_runs(
    values: list[float], more: float
) -> None:
    short, long = estimate_median(values), estimate_median([value + more for value in values])
    assert short is not None
    assert long is not None
    assert at_most(short.middle, long.middle)
    assert at_most(short.low, long.low)
    assert at_most(short.high, long.high)


@given(UNITS, COUNTS)
def test_forecast_lies_between_shortest_and_longest_possible_time(
    values: list[float], count: int
) -> None:
    made = estimate_sum(values, count)
    assert made is not None
    bounds = (0, count * min(values), made.low, made.middle, made.high, count * max(values))
    assert all(map(at_most, bounds, bounds[1:]))


@given(UNITS, COUNTS, COUNTS)
def test_forecast_is_longer_if_more_work_remains(
    values: list[float], first: int, second: int
) -> None:
    few, many = (estimate_sum(values, count) for count in sorted((first, second)))
    assert few is not None
    assert many is not None
    assert at_most(few.low, many.low)
    assert at_most(few.middle, many.middle)
    assert at_most(few.high, many.high)


@given(st.lists(VALUES, max_size=MIN_UNITS - 1), COUNTS)
def test_too_little_finished_work_gives_no_forecast(values: list[float], count: int) -> None:
    assert estimate_sum(values, count) is None


def test_no_remaining_work_gives_no_forecast() -> None:
    assert estimate_sum([1.0] * MIN_UNITS, 0) is None


def test_too_few_earlier_runs_give_no_forecast() -> None:
    assert estimate_median([1.0] * (MIN_RUNS - 1)) is None


def test_forecast_text_contains_time_cost_and_range() -> None:
    seconds = Estimate(middle=11_400, low=7_200, high=18_000)
    cost = Estimate(middle=4_200_000, low=4_200_000, high=4_200_000)
    made = Forecast(seconds=seconds, cost=cost, basis="12 runs")
    assert made.text == "3 h 10 min (5 to 95 %: 2 h to 5 h), $4.20"


def test_missing_time_and_cost_estimates_give_no_forecast() -> None:
    assert make_forecast(None, None, "no runs") is None
    cost = Estimate(middle=1, low=1, high=1)
    assert make_forecast(None, cost, "3 runs") == Forecast(seconds=None, cost=cost, basis="3 runs")
