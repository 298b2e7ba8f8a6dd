"""Connection pool: connections are opened on demand, kept, and shared fairly between orgs.

A call that finds no free connection opens one, up to the size of the pool, or waits for one in the
fair queue. While the database is unreachable, calls try to connect until their deadline, so the
first one after it is back succeeds. A broken connection is closed and frees its slot at once.
"""

import asyncio
from random import uniform
from typing import TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.errors import Unavailable
from waybook.store.driver.addresses import bounded_dsn
from waybook.store.driver.connection import DbConnection
from waybook.store.driver.fair_queue import FairQueue
from waybook.store.driver.wire import LOCK_TIMEOUT, WireSettings

#: Org of a call, as a number because that hashes fast; None for the server's own calls.
Org: TypeAlias = int | None

DEFAULT_SIZE = 10
#: Time a call may wait for a connection.
ACQUIRE_SECONDS = 10.0
#: First deadline of a connection attempt, doubled with each one that passed it: a packet that got
#: lost while the network was down costs little, and a slow network is given the time it needs.
FIRST_CONNECT_SECONDS = 2.0
#: Bounds of the pause between two attempts.
RETRY_SECONDS = (0.05, 0.3)
#: A connection that one call holds for longer is stuck: each message has a deadline of seconds.
MAX_HOLD_SECONDS = 120.0
#: Error texts of a server or pooler that accepts no more connections.
FULL = ("too many", "remaining connection slots", "no more connections")


class ConnectionPool:
    def __init__(
        self,
        dsn: str,
        *,
        size: int = DEFAULT_SIZE,
        timeout: float = ACQUIRE_SECONDS,
        lock_timeout: str = LOCK_TIMEOUT,
    ) -> None:
        """Create an empty pool; the first call opens the first connection."""
        self.dsn = dsn
        self.size = size
        #: Time a call waits for a connection, in seconds.
        self.timeout = timeout
        self.wire = WireSettings(lock_timeout)
        self._free: list[DbConnection] = []
        #: Connections in use, each with the time it was acquired.
        self._held: dict[DbConnection, float] = {}
        #: Slots in use: open connections, and those being opened.
        self._places = 0
        self._closed = False
        self._turns: FairQueue[asyncio.Future[DbConnection | None]] = FairQueue(size)

    async def acquire(self, org: Org) -> DbConnection:
        """Return a connection for one call of this org; give it back with `release`.

        Raises:
            Unavailable: no connection was available in time, or the pool is closed.
            Busy: too many calls of this org are waiting.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        self._turns.register(org)
        while True:
            line = await self._next(org, deadline)
            if line is not None and line.is_clean():
                self._held[line] = loop.time()
                return line
            self._turns.release(org)
            if line is not None:
                self._discard(line)

    async def release(self, line: DbConnection, org: Org) -> None:
        """Take a connection back, after rolling back an uncommitted transaction."""
        try:
            if not line.is_clean():
                await line.clean()
        finally:
            del self._held[line]
            self._turns.release(org)
            if line.is_clean() and not self._closed:
                self._pass_on(line)
            else:
                self._discard(line)

    def close(self) -> None:
        """Close every free connection now, and those in use when they are released."""
        self._closed = True
        while self._free:
            self._discard(self._free.pop())

    def is_stuck(self) -> bool:
        """Return whether a connection has been held longer than any call can take."""
        if not self._held:
            return False
        oldest = min(self._held.values())
        return asyncio.get_running_loop().time() - oldest > MAX_HOLD_SECONDS

    async def _next(self, org: Org, deadline: float) -> DbConnection | None:
        """Return a connection that the org now holds, or None to make the caller retry."""
        if self._closed:
            raise Unavailable("this server is shutting down; repeat the call on the next one")
        if not self._turns.can_acquire(org):
            return await self._wait(org, deadline)
        if self._free:
            self._turns.acquire(org)
            return self._free.pop()
        if self._places < self.size:
            self._turns.acquire(org)
            return await self._open(org, deadline)
        return await self._wait(org, deadline)

    async def _open(self, org: Org, deadline: float) -> DbConnection | None:
        self._places += 1
        try:
            return DbConnection(await self._connect(deadline), self.wire)
        except BaseException as error:
            self._places -= 1
            self._turns.release(org)
            if self._must_share(error):
                return await self._next_free(org, deadline)
            self._pass_on(None)
            if isinstance(error, psycopg.Error | TimeoutError):
                raise _unreachable() from error
            raise

    async def _next_free(self, org: Org, deadline: float) -> DbConnection | None:
        """Return a connection that was released in the meantime, or wait for one."""
        if self._free:
            self._turns.acquire(org)
            return self._free.pop()
        return await self._wait(org, deadline)

    def _must_share(self, error: BaseException) -> bool:
        """Return whether the server accepts no more connections but the pool has some already."""
        is_full = any(words in str(error) for words in FULL)
        return isinstance(error, psycopg.Error) and is_full and bool(self._held or self._free)

    async def _connect(self, deadline: float) -> AsyncConnection[TupleRow]:
        """Connect, retrying until the deadline."""
        loop, limit, pause = asyncio.get_running_loop(), FIRST_CONNECT_SECONDS, RETRY_SECONDS[0]
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + limit)):
                    return await AsyncConnection.connect(
                        bounded_dsn(self.dsn), autocommit=True, prepare_threshold=None
                    )
            except TimeoutError:
                limit *= 2
                if loop.time() >= deadline:
                    raise
            except psycopg.OperationalError as error:
                pause = min(2 * pause, RETRY_SECONDS[1])
                if self._closed or loop.time() + pause >= deadline or self._must_share(error):
                    raise
                await asyncio.sleep(uniform(pause / 2, pause))  # noqa: S311 - spreads the load

    async def _wait(self, org: Org, deadline: float) -> DbConnection | None:
        """Wait for a released connection, or for permission to open one."""
        turn: asyncio.Future[DbConnection | None] = asyncio.get_running_loop().create_future()
        self._turns.enqueue(org, turn)
        try:
            async with asyncio.timeout_at(deadline):
                return await turn
        except BaseException as error:
            self._turns.dequeue(org, turn)
            if turn.done() and not turn.cancelled():
                self._turns.release(org)
                self._pass_on(turn.result())
            turn.cancel()
            if isinstance(error, TimeoutError):
                raise _unreachable() from error
            raise

    def _pass_on(self, line: DbConnection | None) -> None:
        """Give a connection, or with None the permission to open one, to the next waiting call."""
        while served := self._turns.pop_next():
            org, turn = served
            if not turn.done():
                turn.set_result(line)
                return
            self._turns.release(org)  # this call has just gone away
        if line is not None:
            self._free.append(line)

    def _discard(self, line: DbConnection) -> None:
        self._places -= 1
        line.close()
        self._pass_on(None)


def _unreachable() -> Unavailable:
    return Unavailable("the database cannot be reached right now; try again")
