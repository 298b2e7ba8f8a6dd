"""Rate limit on failed credentials, per client address.

Every unknown secret costs a database lookup or the check of a signature. A token bucket per address
limits this: once it is empty, further secrets from the address are refused without a lookup. The
refusal is delayed, so that a client that retries immediately uses little CPU time.

Recently valid secrets are exempt, so that a client with the same address as an attacker can go on
working. They are still looked up, so a revoked token is refused.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import Final

from waybook.errors import RateLimited, Unauthenticated
from waybook.transport.http.browser_session import address_prefix

#: An address may send this many invalid credentials in a burst, and one more after each
#: `REFILL_SECONDS`.
MAX_FAILURES: Final = 10
REFILL_SECONDS: Final = 1.0
MAX_ADDRESSES: Final = 10_000
#: A secret that was recently valid is remembered for `RECENT_SECONDS` after its last use.
MAX_RECENT_SECRETS: Final = 10_000
RECENT_SECONDS: Final = 3_600.0
#: Up to this many parallel lookups of one secret count as a single failure.
MAX_PARALLEL_LOOKUPS: Final = 32
#: A refusal is sent after this delay. The delay grows with the number of refusals waiting for the
#: same address.
DELAY_SECONDS: Final = 1.0
CROWD_SIZE: Final = 32
MAX_DELAY_FACTOR: Final = 10
#: If more refusals are delayed, further refusals are sent immediately.
MAX_DELAYED: Final = 1_000


class FailedCredentials:
    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._full_at: OrderedDict[str, float] = OrderedDict()
        #: When each secret was last valid. Secrets are hashed with a key that exists only in this
        #: process.
        self._recent: OrderedDict[int, float] = OrderedDict()
        self._pending: Counter[int] = Counter()
        self._ended: dict[int, asyncio.Event] = {}
        self._delayed: Counter[str] = Counter()

    @contextmanager
    def lookup(self, address: str, secret: str) -> Iterator[None]:
        """Allow the block to check a secret. An invalid secret counts against the limit.

        A secret that is not known to be valid counts as a failure until its lookup ends, so that
        parallel lookups are limited too. Parallel lookups of the same secret count once.

        Raises:
            RateLimited: the address sent too many invalid secrets; the details say when to retry.
        """
        key, place = hash(secret), address_prefix(address)
        charge = self._admit(key, place)
        self._pending[key] += 1
        try:
            yield
        except Unauthenticated:
            if self._recent.pop(key, None) is not None and not charge:
                self._take(place, REFILL_SECONDS)
            raise
        # Other errors, such as a failed query, are not the client's fault and do not count.
        except BaseException:
            self._take(place, -charge)
            raise
        else:
            self._take(place, -charge)
            self.exempt(secret)
        finally:
            self._pending[key] -= 1
            if not self._pending[key]:
                del self._pending[key]
            if key in self._ended:
                self._ended.pop(key).set()

    async def wait_for_lookup(self, secret: str) -> None:
        """Wait while too many lookups of the same secret are in progress.

        Many agents may share a token and call a server that has just started. Once the first lookup
        has shown that the token is valid, none of them is limited.
        """
        key = hash(secret)
        while self._pending[key] >= MAX_PARALLEL_LOOKUPS and not self._is_recent(key):
            await self._ended.setdefault(key, asyncio.Event()).wait()

    def exempt(self, secret: str) -> None:
        key = hash(secret)
        self._recent[key] = self._clock()
        self._recent.move_to_end(key)
        while len(self._recent) > MAX_RECENT_SECRETS:
            self._recent.popitem(last=False)

    def _admit(self, key: int, place: str) -> float:
        """Count a lookup against the address.

        Return the seconds to give back for a valid secret.
        """
        if self._is_recent(key) or 0 < self._pending[key] < MAX_PARALLEL_LOOKUPS:
            return 0.0
        wait = self._wait(place)
        if wait > 0:
            seconds = max(1, ceil(wait))
            raise RateLimited(
                "too many unknown credentials came from your address; this request was refused. "
                f"Wait {seconds} s, check the token you send, then repeat it",
                retryAfter=seconds,
            )
        self._take(place, REFILL_SECONDS)
        return REFILL_SECONDS

    async def delay(self, address: str) -> None:
        """Delay a refusal. The delay is longer if many refusals for the address are waiting."""
        place = address_prefix(address)
        if self._delayed.total() >= MAX_DELAYED:
            return
        self._delayed[place] += 1
        try:
            factor = min(1 + self._delayed[place] // CROWD_SIZE, MAX_DELAY_FACTOR)
            await self._pause(DELAY_SECONDS * factor)
        finally:
            self._delayed[place] -= 1
            if not self._delayed[place]:
                del self._delayed[place]

    def _take(self, place: str, seconds: float) -> None:
        if not seconds:
            return
        now = self._clock()
        self._full_at[place] = max(now, self._full_at.pop(place, now)) + seconds
        while len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)

    def _wait(self, place: str) -> float:
        full_at = self._full_at.get(place)
        if full_at is None:
            return 0.0
        return max(0.0, full_at - self._clock() - (MAX_FAILURES - 1) * REFILL_SECONDS)

    def _is_recent(self, key: int) -> bool:
        seen = self._recent.get(key)
        return seen is not None and seen > self._clock() - RECENT_SECONDS
