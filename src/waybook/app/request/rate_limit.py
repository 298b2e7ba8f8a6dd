"""Limits the rate of calls per org.

For each org, a point in time is stored. Every call moves it into the future by the interval between
two calls at the allowed rate. While it is too far in the future, further calls must wait.
"""

import mmap
from collections.abc import Hashable
from math import ceil
from typing import Final

from waybook.errors import RateLimited

NANOSECONDS: Final = 1_000_000_000
_MAX_REFUSED: Final = 10_000


class LocalTimes:
    def __init__(self) -> None:
        self.until: dict[Hashable, int] = {}

    def get(self, who: Hashable, now: int) -> int:
        return self.until.get(who, now)

    def put(self, who: Hashable, until: int, now: int) -> None:
        self.until.pop(who, None)
        while self.until and self.until[first := next(iter(self.until))] <= now:
            del self.until[first]
        self.until[who] = until


class SharedTimes:
    """State of the rate limits, in memory that forked processes share.

    Two keys may have the same slot in the memory. They then share one limit.
    """

    SLOTS: Final = 65_536

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, self.SLOTS * 8)).cast("q")

    def get(self, who: Hashable, now: int) -> int:
        """Return the stored time of a key, or `now` if that time has passed.

        >>> times = SharedTimes()
        >>> times.put((1, True), 50, now=20)
        >>> times.get((1, True), now=20), times.get((1, True), now=60)
        (50, 60)
        """
        return max(self._memory[hash(who) % self.SLOTS], now)

    def put(self, who: Hashable, until: int, now: int) -> None:  # noqa: ARG002 - slots are not deleted
        self._memory[hash(who) % self.SLOTS] = until


class TokenBuckets:
    def __init__(
        self, per_second: int, burst: int, times: LocalTimes | SharedTimes | None = None
    ) -> None:
        """Allow `per_second` calls a second on average, and bursts of `burst` calls."""
        self.per_second = per_second
        self.burst = burst
        self._pace = -(-NANOSECONDS // per_second)
        self._ahead_at_most = (burst - 1) * self._pace
        self._times = times or LocalTimes()
        self._refused: set[Hashable] = set()

    def retry_after(self, who: Hashable, now: int) -> float:
        """Return how many seconds the next call with this key must wait, or zero."""
        ahead = self._times.get(who, now) - now
        return max(0, ahead - self._ahead_at_most) / NANOSECONDS

    def try_acquire(self, who: Hashable, now: int) -> float:
        """Count a call and return 0. At the limit, return the seconds to wait instead.

        >>> limit = TokenBuckets(2, burst=3)
        >>> [limit.try_acquire("us", now=10 * NANOSECONDS) for _ in range(4)]
        [0.0, 0.0, 0.0, 0.5]
        """
        wait = self.retry_after(who, now)
        if not wait:
            self._refused.discard(who)
            self.charge(who, now, calls=1)
        return wait

    def charge(self, who: Hashable, now: int, calls: int) -> None:
        """Count an expensive call as this many additional calls."""
        if calls:
            until = max(now, self._times.get(who, now))
            self._times.put(who, until + calls * self._pace, now)

    def is_first_refusal(self, who: Hashable) -> bool:
        first = who not in self._refused
        if len(self._refused) >= _MAX_REFUSED:
            self._refused.clear()
        self._refused.add(who)
        return first

    def rate_limited_error(self, wait: float) -> RateLimited:
        seconds = max(1, ceil(wait))
        return RateLimited(
            f"your org has used up its {self.per_second} calls a second and its burst of "
            f"{self.burst}; this call was not carried out. Wait {seconds} s, then repeat it; if "
            "several of you share the org, each should pause between calls",
            retryAfter=seconds,
            callsPerSecond=self.per_second,
            burst=self.burst,
        )
