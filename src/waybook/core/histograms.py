"""Histogram of observed values with fixed buckets, for metrics."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

DURATION_BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Add a value.

        >>> sizes = Histogram((1, 2))
        >>> for size in (1, 2, 2, 7):
        ...     sizes.observe(size)
        >>> sizes.counts, sizes.total
        ([1, 2, 1], 12.0)
        """
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
