"""Database connection pool that opens connections on demand and shares them fairly between orgs.

A call that finds no free connection opens one, up to the size of the pool, or waits for one in the
fair queue. While the database is unreachable, calls try to connect until their deadline, so they
succeed as soon as the database is reachable again. A broken connection is closed and frees its slot
at once, and so do the free connections, which lead to the same server. If the connection string
names several hosts, and a new connection reaches another primary than the others, the others are
given up.

Fair queue over orgs: the waiting org that holds the fewest connections is served first.

Calls of one org wait in order of arrival. Among orgs that hold equally many connections, the one
that has waited longest for its turn is served. An org that makes too many calls therefore delays
mainly its own calls; a call of another org waits only until one connection is released. If only one
org is active, it may hold all connections. If several orgs are active, each may hold three quarters
of them, because it may take seconds until a connection is released.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from functools import partial
from random import uniform
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.errors import Busy, Unavailable
from waybook.store.driver.addresses import follows_primary
from waybook.store.driver.connection import DbConnection
from waybook.store.driver.dial import first_opened
from waybook.store.driver.wire import LOCK_TIMEOUT, WireSettings

T = TypeVar("T")

#: Maximum number of calls of one org that may wait for a connection at the same time.
MAX_QUEUED: Final = 256


class FairQueue(Generic[T]):
    def __init__(self, size: int, most_waiting: int = MAX_QUEUED) -> None:
        """Create a fair queue for a pool of `size` connections."""
        self._size = size
        self._share = size - size // 4
        self._most_waiting = most_waiting
        self._held: defaultdict[Hashable, int] = defaultdict(int)
        #: Waiting calls, grouped by the number of connections that their org holds. Within each
        #: group, the orgs are in the order in which they are served.
        self._waiting: defaultdict[int, dict[Hashable, deque[T]]] = defaultdict(dict)
        #: Number of waiting calls. It is usually zero, and if it is zero, no search for the next
        #: call is needed.
        self._crowd = 0
        self._first_org: Hashable = None
        self._most_each = size

    def register(self, org: Hashable) -> None:
        """Register an active org, to detect several orgs; None stands for the server itself."""
        if org == self._first_org or org is None:
            return
        if self._first_org is None:
            self._first_org = org
        else:
            self._most_each = self._share

    def can_acquire(self, org: Hashable) -> bool:
        """Return whether an org may hold one more connection."""
        return self._held.get(org, 0) < self._most_each

    def acquire(self, org: Hashable) -> None:
        """Record that an org holds one more connection."""
        held = self._held[org]
        self._held[org] = held + 1
        if self._crowd:
            self._move(org, held, held + 1)

    def release(self, org: Hashable) -> None:
        """Record that an org holds one fewer connection."""
        held = self._held.pop(org)
        if held > 1:
            self._held[org] = held - 1
        if self._crowd:
            self._move(org, held, held - 1)

    def enqueue(self, org: Hashable, waiting: T) -> None:
        """Add a call that waits for a connection to the queue.

        Raises:
            Busy: too many calls of this org are waiting.
        """
        level = self._waiting[self._held.get(org, 0)]
        queue = level.setdefault(org, deque())
        if len(queue) >= self._most_waiting:
            raise Busy(
                f"{self._most_waiting} calls of your org wait for the database already; nothing "
                "was written. Wait a second, then repeat the call, and make fewer at a time",
                limit=self._most_waiting,
            )
        queue.append(waiting)
        self._crowd += 1

    def dequeue(self, org: Hashable, waiting: T) -> None:
        """Remove a call that no longer waits for a connection from the queue."""
        level = self._waiting[self._held.get(org, 0)]
        queue = level.get(org)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            self._crowd -= 1
            if not queue:
                del level[org]

    def pop_next(self) -> tuple[Hashable, T] | None:
        """Remove and return the next waiting call with its org; count a connection for the org.

        Return None if every waiting org holds its maximum number of connections.
        """
        for held in range(self._most_each if self._crowd else 0):
            level = self._waiting.get(held)
            if level:
                org = next(iter(level))
                queue = level[org]
                waiting = queue.popleft()
                self._crowd -= 1
                if not queue:
                    del level[org]
                self.acquire(org)
                return org, waiting
        return None

    def waiting_count(self) -> int:
        """Return the number of waiting calls."""
        return self._crowd

    def _move(self, org: Hashable, old: int, new: int) -> None:
        """Move an org's waiting calls to the queue of the orgs that hold `new` connections."""
        queue = self._waiting[old].pop(org, None) if old in self._waiting else None
        if queue is not None:
            self._waiting[new][org] = queue


#: Org of a call, represented as a number because numbers can be hashed fast; None for calls of the
#: server itself.
Org: TypeAlias = int | None

DEFAULT_SIZE = 10
#: Default maximum time in seconds for which a call waits for a connection.
ACQUIRE_SECONDS = 10.0
#: Maximum time in seconds of the first connection attempt; it doubles after each attempt that takes
#: longer. Because the first attempts are short, a packet that is lost while the network is down
#: costs little time; because the time doubles, a slow network gets the time it needs.
FIRST_CONNECT_SECONDS = 2.0
#: Minimum and maximum pause between two connection attempts, in seconds.
RETRY_SECONDS = (0.05, 0.3)
#: Maximum time in seconds for which one call holds a connection. A connection that is held longer
#: must be stuck, because each message has a deadline of only seconds.
MAX_HOLD_SECONDS = 120.0
#: Parts of the error messages with which a database server or a connection pooler reports that it
#: accepts no more connections.
FULL = ("too many", "remaining connection slots", "no more connections")


class PoolUsage(NamedTuple):
    """Connections of a pool, and calls that wait for a connection."""

    #: Maximum number of connections.
    size: int
    #: Number of connections that are open or being opened.
    open: int
    in_use: int
    #: Number of calls that wait for a connection.
    waiting: int


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
        #: Maximum time in seconds for which a call waits for a connection.
        self.timeout = timeout
        self.wire = WireSettings(lock_timeout)
        self._free: list[DbConnection] = []
        #: Connections in use, each with the time it was acquired.
        self._held: dict[DbConnection, float] = {}
        #: Number of connections that are open or being opened, which the size of the pool limits.
        self._places = 0
        self._closed = False
        self._turns: FairQueue[asyncio.Future[DbConnection | None]] = FairQueue(size)

    async def acquire(self, org: Org) -> DbConnection:
        """Return a connection for a call of this org; the caller must return it with `release`.

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
        """Return a connection to the pool, after rolling back an uncommitted transaction."""
        try:
            if not line.is_clean():
                await line.clean()
        finally:
            del self._held[line]
            self._turns.release(org)
            if line.is_lost:
                # The free connections lead to the same server.
                self._discard_free(self._free)
            if line.is_clean() and not self._closed:
                self._pass_on(line)
            else:
                self._discard(line)

    def close(self) -> None:
        """Close the free connections now, and connections in use when they are released."""
        self._closed = True
        while self._free:
            self._discard(self._free.pop())

    def usage(self) -> PoolUsage:
        """Return the current numbers of connections and of calls that wait for one."""
        return PoolUsage(self.size, self._places, len(self._held), self._turns.waiting_count())

    def is_stuck(self) -> bool:
        """Return whether a connection has been in use for longer than any call can take."""
        if not self._held:
            return False
        oldest = min(self._held.values())
        return asyncio.get_running_loop().time() - oldest > MAX_HOLD_SECONDS

    async def _next(self, org: Org, deadline: float) -> DbConnection | None:
        """Return a connection for the org, or None if the caller should try again."""
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
            return self._follow(DbConnection(await self._connect(deadline), self.wire))
        except BaseException as error:
            self._places -= 1
            self._turns.release(org)
            if self._must_share(error):
                return await self._next_free(org, deadline)
            self._pass_on(None)
            if isinstance(error, psycopg.Error | TimeoutError):
                raise _unreachable() from error
            raise

    def _follow(self, new: DbConnection) -> DbConnection:
        """Give up the connections to another server, which the new one's server has replaced."""
        if follows_primary(self.dsn):
            for line in [line for line in self._held if line.server != new.server]:
                line.give_up()
            self._discard_free(line for line in self._free if line.server != new.server)
        return new

    def _discard_free(self, lines: Iterable[DbConnection]) -> None:
        """Close free connections."""
        for line in list(lines):
            self._free.remove(line)
            self._discard(line)

    async def _next_free(self, org: Org, deadline: float) -> DbConnection | None:
        """Return a free connection, or wait until a connection is released."""
        if self._free:
            self._turns.acquire(org)
            return self._free.pop()
        return await self._wait(org, deadline)

    def _must_share(self, error: BaseException) -> bool:
        """Return whether the server refuses further connections, but this pool already has some."""
        is_full = any(words in str(error) for words in FULL)
        return isinstance(error, psycopg.Error) and is_full and bool(self._held or self._free)

    async def _connect(self, deadline: float) -> AsyncConnection[TupleRow]:
        """Open a database connection to the first usable host, retrying until the deadline."""
        open_host = partial(self._connect_host, deadline=deadline)
        return await first_opened(self.dsn, open_host, self._must_share)

    async def _connect_host(self, dsn: str, *, deadline: float) -> AsyncConnection[TupleRow]:
        """Open a database connection to one host, retrying until the deadline."""
        loop, limit, pause = asyncio.get_running_loop(), FIRST_CONNECT_SECONDS, RETRY_SECONDS[0]
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + limit)):
                    return await AsyncConnection.connect(
                        dsn, autocommit=True, prepare_threshold=None
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
        """Wait for a released connection, or for permission to open a new one."""
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
        """Give the next waiting call a connection or, if None, the permission to open one."""
        while served := self._turns.pop_next():
            org, turn = served
            if not turn.done():
                turn.set_result(line)
                return
            # The waiting call has given up, so its reservation is released and the next call is
            # tried.
            self._turns.release(org)
        if line is not None:
            self._free.append(line)

    def _discard(self, line: DbConnection) -> None:
        self._places -= 1
        line.close()
        self._pass_on(None)


def _unreachable() -> Unavailable:
    return Unavailable("the database cannot be reached right now; try again")
