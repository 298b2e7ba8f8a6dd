"""Rate limit on failed credentials, per client address.

Recently valid secrets are exempt, so that a client with the same address as an attacker can go on
working.
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

MAX_FAILURES: Final = 10
REFILL_SECONDS: Final = 1.0
MAX_ADDRESSES: Final = 10_000
#: Seconds for which a secret that was valid is remembered after its last use.
MAX_RECENT_SECRETS: Final = 10_000
RECENT_SECONDS: Final = 3_600.0
#: Number of parallel lookups of one secret that count as a single failure.
MAX_PARALLEL_LOOKUPS: Final = 32
#: Seconds before a refusal is sent. The delay grows with the number of waiting refusals.
DELAY_SECONDS: Final = 1.0
_CROWD_SIZE: Final = 32
MAX_DELAY_FACTOR: Final = 10
#: Maximum number of delayed refusals. Further refusals are sent immediately.
_MAX_DELAYED: Final = 1_000


class FailedCredentials:
    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._full_at: OrderedDict[str, float] = OrderedDict()
        #: When each secret was last valid. Only a hash of the secret is kept.
        self._recent: OrderedDict[int, float] = OrderedDict()
        self._pending: Counter[int] = Counter()
        self._ended: dict[int, asyncio.Event] = {}
        self._delayed: Counter[str] = Counter()

    @contextmanager
    def lookup(self, address: str, secret: str) -> Iterator[None]:
        """Allow the block to check a secret. An invalid secret counts against the limit.

        Parallel lookups of the same secret count once.

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
        # Other errors, such as a failed query, are not the client's fault.
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

        Many agents may share a token, and one lookup is enough to show that the token is valid.
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
        """Count a lookup against the address. A valid secret gets the returned seconds back."""
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
        """Delay a refusal.

        The delay is longer if many refusals for the same address are waiting.
        """
        place = address_prefix(address)
        if self._delayed.total() >= _MAX_DELAYED:
            return
        self._delayed[place] += 1
        try:
            factor = min(1 + self._delayed[place] // _CROWD_SIZE, MAX_DELAY_FACTOR)
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
