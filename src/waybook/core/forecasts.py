"""Forecasts the time and cost of the rest of a plan or run from earlier plans or runs.

The range of a forecast is the spread between the earlier plans or runs. It is not the error of
their mean, which would be narrow even if they have little in common.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from waybook.core.usage import DOLLAR, format_cost

#: Minimum number of earlier runs of the same workflow, or of earlier plans with the same steps.
MIN_SAME: Final = 3
#: Minimum number of earlier plans, if too few of them have the same steps.
MIN_OTHER: Final = 5
#: The more of a plan is finished, the narrower the range. This part of the spread always remains,
#: because the last steps may differ from the first.
_MIN_SPREAD: Final = 0.25
#: Units of a duration: the size in seconds, and the duration from which the next unit is used.
_UNITS: Final = ((1, 60, "s"), (60, 5_400, "min"), (3_600, 172_800, "h"))


class Estimate(NamedTuple):
    middle: float
    low: float
    high: float
    #: Number of earlier plans or runs.
    number: int

    def format(self, show: Callable[[float], str]) -> str:
        """Return the estimate as text, without the range if its ends look the same as the value.

        >>> Estimate(2220, 1560, 3120, 7).format(rough_duration)
        '37 min (26 to 52)'
        >>> Estimate(60, 30, 90, 7).format(rough_duration)
        '1 min (30 s to 1.5 min)'
        """
        middle, low, high = show(self.middle), show(self.low), show(self.high)
        if low == middle == high:
            return middle
        if len({text.partition(" ")[2] for text in (low, middle, high)}) == 1:
            low, high = low.partition(" ")[0], high.partition(" ")[0]
        return f"{middle} ({low} to {high})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Expected seconds, and expected cost in millionths of a dollar, or why it is too early."""

    seconds: Estimate | None = None
    cost: Estimate | None = None
    #: What the numbers are computed from, such as `earlier plans`.
    source: str = ""
    too_early: str = ""

    @property
    def text(self) -> str:
        """Return the expected time and cost as one phrase.

        >>> Forecast(seconds=Estimate(120, 120, 120, 3), source="earlier runs").text
        '2 min'
        """
        shown = ((self.seconds, rough_duration), (self.cost, rough_cost))
        return ", ".join(estimate.format(show) for estimate, show in shown if estimate)

    @property
    def basis(self) -> str:
        """Return what the forecast is based on.

        >>> seconds, cost = Estimate(2, 1, 3, 7), Estimate(2, 1, 3, 5)
        >>> Forecast(seconds=seconds, source="earlier plans").basis
        'from 7 earlier plans'
        >>> Forecast(seconds=seconds, cost=cost, source="earlier plans").basis
        'time from 7, cost from 5 earlier plans'
        """
        counts = [estimate.number for estimate in (self.seconds, self.cost) if estimate]
        if len({*counts}) > 1:
            return f"time from {counts[0]}, cost from {counts[1]} {self.source}"
        return f"from {counts[0]} {self.source}" if counts else ""


def round_roughly(value: float) -> float:
    """Return the value with two significant digits.

    >>> round_roughly(135.84), round_roughly(0.0126), round_roughly(0)
    (140.0, 0.013, 0.0)
    """
    return float(f"{value:.2g}")


def rough_duration(seconds: float) -> str:
    """Return a duration with two significant digits and one unit.

    >>> [rough_duration(seconds) for seconds in (7.4, 59.7, 2222, 5_700, 43_500, 8_640_000)]
    ['7 s', '1 min', '37 min', '1.6 h', '12 h', '100 d']
    """
    seconds = round(seconds)
    for size, end, unit in _UNITS:
        value = round_roughly(seconds / size)
        if value * size < end:
            return f"{value:g} {unit}"
    value = round_roughly(seconds / 86_400)
    return f"{int(value) if value == int(value) else value:,} d"


def rough_cost(micros: float) -> str:
    """Return an amount in dollars with two significant digits.

    >>> [rough_cost(micros) for micros in (135_840_000, 4_231_000, 126)]
    ['$140', '$4.20', '$0.00013']
    """
    rounded = round_roughly(micros)
    return f"${rounded / DOLLAR:,.0f}" if rounded >= 10 * DOLLAR else format_cost(round(rounded))


def estimate(
    rates: Sequence[float], left: int, *, least: int, own: float = 0, own_share: float = 0
) -> Estimate | None:
    """Forecast the time or cost of the steps or jobs that are left, or return None if too early.

    `rates` are the time or cost per step or job of earlier plans or runs, and `own` is that of the
    plan or run itself so far. `own_share` is the weight of `own`, from 0 to 1. Rates of 0 are left
    out. Of 19 rates and more, the range leaves out one in ten at each end.

    >>> estimate([10, 30, 20, 40, 100], 2, least=5)
    Estimate(middle=60.0, low=20.0, high=200.0, number=5)
    >>> print(estimate([10, 30, 20], 2, least=5))
    None
    """
    known = sorted(rate for rate in rates if rate > 0)
    if len(known) < least or left < 1:
        return None
    typical, omitted = median(known), max(1, (len(known) + 1) // 10)
    low, high = known[omitted - 1], known[-omitted]
    if own <= 0:
        own, own_share = typical, 0
    # Rates differ by factors, so they are combined by multiplication.
    middle = left * typical * (own / typical) ** own_share
    spread = max(1 - own_share, _MIN_SPREAD)
    return Estimate(
        middle=middle,
        low=middle * (min(low, own) / typical) ** spread,
        high=middle * (max(high, own) / typical) ** spread,
        number=len(known),
    )


def make_forecast(
    seconds: Estimate | None, cost: Estimate | None, source: str, *, known: int, needed: int
) -> Forecast | None:
    """Return a forecast, or None if there is nothing to forecast, such as a time below one second.

    >>> make_forecast(None, None, "earlier runs of this workflow", known=1, needed=3).too_early
    'only 1 of the 3 earlier runs of this workflow that a forecast needs'
    """
    if known < needed:
        some = f"only {known}" if known else "none"
        return Forecast(too_early=f"{some} of the {needed} {source} that a forecast needs")
    if seconds is not None and seconds.high < 1:
        seconds = None
    return Forecast(seconds=seconds, cost=cost, source=source) if seconds or cost else None
