"""Formats durations and ages, and forecasts time and cost from finished work.

A forecast has a range from the 5th to the 95th percentile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from typing import Final

from waybook.core.usage import format_cost

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def format_duration(gap: timedelta) -> str:
    """Return a duration in its shortest readable form.

    >>> (
    ...     format_duration(timedelta(seconds=5.4)),
    ...     format_duration(timedelta(seconds=761)),
    ...     format_duration(timedelta(hours=5)),
    ... )
    ('5 s', '12 min', '5 h')
    >>> format_duration(timedelta(days=3, hours=2)), format_duration(timedelta(seconds=-1))
    ('3 d 2 h', '0 s')
    """
    seconds = max(0, round(gap.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    large, small, names = (HOUR, MINUTE, ("h", "min")) if seconds < DAY else (DAY, HOUR, ("d", "h"))
    rest = seconds % large // small
    return f"{seconds // large} {names[0]}" + (f" {rest} {names[1]}" if rest else "")


def format_age(at: datetime, now: datetime) -> str:
    """Return the age of a time as a short phrase.

    >>> noon = datetime.fromisoformat("2030-01-01T12:00:00Z")
    >>> (
    ...     format_age(noon, noon),
    ...     format_age(noon, noon + timedelta(minutes=3)),
    ...     format_age(noon, noon + timedelta(2)),
    ... )
    ('just now', '3 min ago', '2 days ago')
    """
    seconds = int((now - at).total_seconds())
    for unit, most, name in ((1, MINUTE, "s"), (MINUTE, HOUR, " min"), (HOUR, DAY, " h")):
        if seconds < most:
            return (
                f"{seconds // unit}{name} ago"
                if seconds >= unit * 2
                else {"s": "just now", " min": "1 min ago", " h": "1 h ago"}[name]
            )
    return f"{seconds // DAY} days ago" if seconds >= 2 * DAY else "yesterday"


MIN_RUNS: Final = 3
MIN_UNITS: Final = 5
_LOW_QUANTILE: Final = 0.05
_HIGH_QUANTILE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    middle: float
    low: float
    high: float

    def format(self, show: Callable[[float], str]) -> str:
        """Return the estimate as text, without the range if its ends look the same as the value.

        >>> Estimate(middle=60, low=30, high=90).format(_format_seconds)
        '1 min (5 to 95 %: 30 s to 1 min)'
        """
        middle, low, high = show(self.middle), show(self.low), show(self.high)
        return middle if low == middle == high else f"{middle} (5 to 95 %: {low} to {high})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    #: Expected seconds, and expected cost in millionths of a dollar. None means that too little
    #: work is finished for an estimate.
    seconds: Estimate | None
    cost: Estimate | None
    basis: str

    @property
    def time_text(self) -> str:
        return self.seconds.format(_format_seconds) if self.seconds else ""

    @property
    def cost_text(self) -> str:
        return self.cost.format(lambda micros: format_cost(round(micros))) if self.cost else ""

    @property
    def text(self) -> str:
        """Return the expected time and cost as one phrase.

        >>> same = Estimate(middle=120, low=120, high=120)
        >>> Forecast(seconds=same, cost=None, basis="").text
        '2 min'
        """
        return ", ".join(filter(None, (self.time_text, self.cost_text)))


def _format_seconds(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies.

    >>> quantile([4, 1, 2, 3], 0.5), quantile([7], 0.95)
    (2.5, 7.0)
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def estimate_median(values: Sequence[float]) -> Estimate | None:
    """Return the median and the range of the values, or None if there are too few values.

    >>> estimate_median([10, 20, 30])
    Estimate(middle=20.0, low=11.0, high=29.0)
    >>> print(estimate_median([10, 20]))
    None
    """
    if len(values) < MIN_RUNS:
        return None
    low, middle, high = (quantile(values, q) for q in (_LOW_QUANTILE, 0.5, _HIGH_QUANTILE))
    return Estimate(middle=middle, low=low, high=high)


def estimate_sum(values: Sequence[float], count: int) -> Estimate | None:
    """Return the expected sum of `count` more values, or None if there are too few values so far.

    The expected sum is `count` times the mean. The values are assumed to be independent, so the
    range grows with the square root of `count`.

    >>> estimate_sum([10, 10, 10, 10, 10], 4)
    Estimate(middle=40.0, low=40.0, high=40.0)
    """
    if len(values) < MIN_UNITS or count < 1:
        return None
    mean = sum(values) / len(values)
    low, high = (quantile(values, q) for q in (_LOW_QUANTILE, _HIGH_QUANTILE))
    middle = count * mean
    return Estimate(
        middle=middle,
        low=min(middle, middle - sqrt(count) * (mean - low)),
        high=max(middle, middle + sqrt(count) * (high - mean)),
    )


def make_forecast(seconds: Estimate | None, cost: Estimate | None, basis: str) -> Forecast | None:
    """Return a forecast, or None if neither time nor cost can be estimated.

    A time below one second is not forecast.

    >>> print(make_forecast(Estimate(middle=0.0, low=0.0, high=0.0), None, "5 steps"))
    None
    """
    if seconds is not None and seconds.high < 1:
        seconds = None
    if seconds is None and cost is None:
        return None
    return Forecast(seconds=seconds, cost=cost, basis=basis)
