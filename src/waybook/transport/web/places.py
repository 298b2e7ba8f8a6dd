"""Places at work: of each org only a few requests are worked on at the same time.

A process has one processor, and what is begun at once is done in turns: with a hundred requests of
one org under way, a request of another would wait for a hundred turns. So the others of an org
wait at the gate. A request gives its place up when it begins to answer, or after half a second: by
then it waits for something else, a lock or a model, and does not need the processor.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final

#: Requests of an org that are worked on at the same time.
MAX_CONCURRENT: Final = 4
WAIT_TIMEOUT_SECONDS: Final = 0.5


class ConcurrencyLimiter:
    def __init__(self, each: int = MAX_CONCURRENT, patience: float = WAIT_TIMEOUT_SECONDS) -> None:
        """So many for each org, each kept for so many seconds."""
        self._each = each
        self._patience = patience
        self._taken: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, org: Hashable) -> AsyncIterator[Callable[[], None]]:
        """A place, in the order they came; gives the way to give it up before the end."""
        await self._take(org)
        given = False

        def give() -> None:
            nonlocal given
            if not given:
                given = True
                self._give(org)

        timer = asyncio.get_running_loop().call_later(self._patience, give)
        try:
            yield give
        finally:
            timer.cancel()
            give()

    async def _take(self, org: Hashable) -> None:
        if self._taken[org] < self._each:
            self._taken[org] += 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(org, deque())
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give(org)
            raise

    def _give(self, org: Hashable) -> None:
        queue = self._waiting.get(org)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(org, None)
        self._taken[org] -= 1
        if not self._taken[org]:
            del self._taken[org]
