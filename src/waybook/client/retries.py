"""Retries of calls: growing delays with jitter, and a deadline for all attempts together."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from waybook.client.errors import Unreachable, retry_delay
from waybook.errors import Busy, RateLimited, WaybookError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Limits on the retries of a call that got no answer or was temporarily refused."""

    #: Maximum seconds between the start of the first attempt and the start of the last one.
    deadline_seconds: float = 60.0
    first_delay_seconds: float = 0.1
    max_delay_seconds: float = 5.0

    def delay(self, attempt: int, elapsed: float, retry_after: float | None) -> float | None:
        """Return the seconds before the next attempt, or None if there must not be one.

        >>> retry = Retry(deadline_seconds=10)
        >>> [retry.delay(attempt, 0.0, None) for attempt in (1, 2, 3, 99)]
        [0.1, 0.2, 0.4, 5.0]
        >>> retry.delay(1, 0.0, 3.0), retry.delay(1, 8.0, 3.0)
        (3.0, None)
        """
        doublings = min(attempt - 1, 30)  # After 30 doublings, any limit is exceeded.
        grown = min(self.first_delay_seconds * 2**doublings, self.max_delay_seconds)
        delay = max(grown, retry_after or 0.0)
        return delay if elapsed + delay <= self.deadline_seconds else None


NO_RETRY = Retry(deadline_seconds=0)


def is_transient(error: WaybookError, *, repeatable: bool) -> bool:
    """Return whether the same call may succeed later.

    A call without an answer may have taken effect, so it is sent again only if it is repeatable.
    """
    if isinstance(error, Busy | RateLimited):
        return True
    return repeatable and (isinstance(error, Unreachable) or retry_delay(error) is not None)


async def call_with_retries(
    attempt: Callable[[float | None], Awaitable[T]], retry: Retry, *, repeatable: bool
) -> T:
    """Repeat a call until it is answered, a retry cannot help, or the deadline is reached.

    `attempt` is called with the seconds left, or with None the first time.
    """
    clock = asyncio.get_running_loop().time
    started, left, number = clock(), None, 1
    while True:
        try:
            return await attempt(left)
        except WaybookError as error:
            if not is_transient(error, repeatable=repeatable):
                raise
            delay = retry.delay(number, clock() - started, retry_delay(error))
            if delay is None:
                raise
        # Random delays keep clients from calling a restarted server all at the same time.
        await asyncio.sleep(delay * random.uniform(1.0, 1.25))  # noqa: S311 - no secret
        left = max(retry.deadline_seconds - (clock() - started), retry.first_delay_seconds)
        number += 1
