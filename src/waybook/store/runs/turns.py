"""Turns of calls on one run, in the order of their arrival.

A call that locks the run has a turn alone. Consecutive calls on the cached run that wait for a turn
share one: they form a batch.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from waybook.errors import Busy
from waybook.store.runs.batch import Batch

#: Maximum time for which a call waits for its turn; the same as for a lock in the database.
TURN_TIMEOUT_SECONDS = 5.0
#: Maximum number of calls in one batch, which limits the size of its message.
MAX_CALLS = 16


class _Waiter(NamedTuple):
    #: Future that is set to the batch of the call, or to None for a turn alone.
    granted: asyncio.Future[Batch | None]
    is_shared: bool


class TurnQueue:
    def __init__(self, make_batch: Callable[[int], Batch]) -> None:
        """Create an empty queue; `make_batch` creates a batch of a number of calls."""
        self._make_batch = make_batch
        self._waiting: deque[_Waiter] = deque()
        self.is_taken = False

    async def take(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        """Wait until the calls before this one have ended their turns; `end` ends this one.

        Raises:
            Busy: the turn did not come in time.
        """
        if self.is_taken:
            await self._wait(seconds, is_shared=False)
        self.is_taken = True

    async def join(self, seconds: float = TURN_TIMEOUT_SECONDS) -> Batch:
        """Wait for a turn of a batch, and return the batch, which ends the turn.

        Raises:
            Busy: the turn did not come in time.
        """
        batch = await self._wait(seconds, is_shared=True) if self.is_taken else None
        self.is_taken = True
        return batch or self._make_batch(1)

    async def _wait(self, seconds: float, *, is_shared: bool) -> Batch | None:
        waiter = _Waiter(asyncio.get_running_loop().create_future(), is_shared)
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                return await waiter.granted
        except TimeoutError as error:
            self._give_back(waiter)
            raise Busy from error
        except asyncio.CancelledError:
            self._give_back(waiter)
            raise

    def _give_back(self, waiter: _Waiter) -> None:
        """End the turn of a call that no longer needs it."""
        if not waiter.granted.cancelled() and waiter.granted.done():
            batch = waiter.granted.result()
            if batch is None:
                self.end()
            else:
                batch.leave()

    def end(self) -> None:
        """End a turn, and begin the next one: of one call, or of a batch."""
        calls: list[_Waiter] = []
        while self._waiting and len(calls) < MAX_CALLS:
            if self._waiting[0].granted.done():  # The call no longer waits.
                self._waiting.popleft()
                continue
            if calls and not self._waiting[0].is_shared:
                break
            calls.append(self._waiting.popleft())
            if not calls[0].is_shared:
                break
        self.is_taken = bool(calls)
        if calls:
            batch = self._make_batch(len(calls)) if calls[0].is_shared else None
            for call in calls:
                call.granted.set_result(batch)
