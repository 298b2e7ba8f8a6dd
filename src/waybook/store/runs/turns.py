"""Lets the calls on one run proceed in order of arrival.

A call that locks the run proceeds alone. Calls that use the cached run proceed together, in a
shared turn.
"""

import asyncio
from collections import deque

from waybook.errors import Busy

#: A call waits for its turn as long as for a database lock.
TURN_TIMEOUT_SECONDS = 5.0
#: Maximum number of calls that share a turn.
MAX_SHARED = 32


class TurnQueue:
    def __init__(self) -> None:
        #: For each waiting call, whether its turn is granted and whether it shares the turn.
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()
        self._sharing = 0
        self._is_alone = False

    @property
    def is_taken(self) -> bool:
        return self._is_alone or self._sharing > 0

    async def take(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        """Wait for a turn that no other call shares."""
        if self._is_alone or self._sharing or self._waiting:
            await self._wait(seconds, is_shared=False)
        else:
            self._is_alone = True

    async def join(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        """Wait for a turn that other calls may share."""
        if self._is_alone or self._waiting or self._sharing >= MAX_SHARED:
            await self._wait(seconds, is_shared=True)
        else:
            self._sharing += 1

    def end(self) -> None:
        self._is_alone = False
        self._begin_next()

    def leave(self, calls: int = 1) -> None:
        self._sharing -= calls
        if self._waiting:
            self._begin_next()

    async def _wait(self, seconds: float, *, is_shared: bool) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((granted, is_shared))
        try:
            async with asyncio.timeout(seconds):
                await granted
        except (TimeoutError, asyncio.CancelledError) as error:
            # The call stops waiting, so end its turn.
            if granted.cancelled() or not granted.done():
                self._begin_next()
            elif is_shared:
                self.leave()
            else:
                self.end()
            if isinstance(error, TimeoutError):
                raise Busy from error
            raise

    def _begin_next(self) -> None:
        while self._waiting and not self._is_alone:
            granted, is_shared = self._waiting[0]
            if not granted.done():
                if self._sharing >= (MAX_SHARED if is_shared else 1):
                    return
                self._sharing += is_shared
                self._is_alone = not is_shared
                granted.set_result(None)
            self._waiting.popleft()
