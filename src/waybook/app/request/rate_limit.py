"""How often an org may call: so many times a second, and a burst now and then.

Kept for each is one number: until when its calls so far would have kept it busy, had it called at
an even pace. Whoever is further ahead of that pace than a burst has to wait. An org that is not
ahead is as good as one that never called, and is forgotten. Times are in whole nanoseconds, so
that nothing is rounded.
"""

from collections.abc import Hashable
from math import ceil
from typing import Final

from waybook.errors import RateLimited

NANOSECONDS: Final = 1_000_000_000


class TokenBuckets:
    def __init__(self, per_second: int, burst: int) -> None:
        """So many calls a second, and so many at once."""
        self.per_second = per_second
        self.burst = burst
        self._pace = -(-NANOSECONDS // per_second)
        self._ahead_at_most = (burst - 1) * self._pace
        #: Until when each has called, at an even pace; whoever called last stands last.
        self._until: dict[Hashable, int] = {}
        #: Who was refused and has not been let in since.
        self._refused: set[Hashable] = set()

    def retry_after(self, who: Hashable, now: int) -> float:
        """How many seconds until somebody may call: none, if they may.

        >>> limit = TokenBuckets(2, burst=3)
        >>> limit.retry_after("us", now=10 * NANOSECONDS)
        0.0
        """
        ahead = self._until.get(who, now) - now
        return max(0, ahead - self._ahead_at_most) / NANOSECONDS

    def try_acquire(self, who: Hashable, now: int) -> float:
        """Count a call, unless it has to wait; returns how many seconds, as `wait` does.

        >>> limit = TokenBuckets(2, burst=3)
        >>> [limit.try_acquire("us", now=10 * NANOSECONDS) for _ in range(4)]
        [0.0, 0.0, 0.0, 0.5]
        >>> (
        ...     limit.try_acquire("them", now=10 * NANOSECONDS),
        ...     limit.try_acquire("us", now=11 * NANOSECONDS),
        ... )
        (0.0, 0.0)
        """
        wait = self.retry_after(who, now)
        if not wait:
            until = max(now, self._until.pop(who, now))
            self._refused.discard(who)
            self._forget(now)
            self._until[who] = until + self._pace
        return wait

    def charge(self, who: Hashable, now: int, calls: int) -> None:
        """Count an expensive call as so many more, once it has been carried out.

        >>> limit = TokenBuckets(2, burst=3)
        >>> limit.charge("us", now=10 * NANOSECONDS, calls=3)
        >>> limit.retry_after("us", now=10 * NANOSECONDS)
        0.5
        """
        if calls:
            until = max(now, self._until.pop(who, now))
            self._until[who] = until + calls * self._pace

    def is_first_refusal(self, who: Hashable) -> bool:
        """Note that somebody is refused; tells whether that is the first time in a row."""
        first = who not in self._refused
        self._refused.add(who)
        return first

    def rate_limited_error(self, wait: float) -> RateLimited:
        """What somebody is told who has to wait; whoever comes again then is let in."""
        seconds = max(1, ceil(wait))
        return RateLimited(
            f"your org has used up its {self.per_second} calls a second and its burst of "
            f"{self.burst}; this call was not carried out. Wait {seconds} s, then repeat it; if "
            "several of you share the org, each should pause between calls",
            retryAfter=seconds,
            callsPerSecond=self.per_second,
            burst=self.burst,
        )

    def tracked_count(self) -> int:
        """Of how many something is kept."""
        return len(self._until)

    def _forget(self, now: int) -> None:
        """Forget those at the front who are no longer ahead: each call makes room for its own."""
        while self._until:
            first = next(iter(self._until))
            if self._until[first] > now:
                return
            del self._until[first]
            self._refused.discard(first)
