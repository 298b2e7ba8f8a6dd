"""A connection pool that opens connections on demand and shares them fairly between orgs.

While the database is unreachable, calls try to connect until their deadline.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from random import uniform
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from waybook.errors import Busy, Unavailable
from waybook.store.driver.addresses import first_opened, follows_primary
from waybook.store.driver.connection import LOCK_TIMEOUT, DbConnection, WireSettings

#: Id of an org as an int, because an int is hashed fast. None for calls of the server itself.
Org: TypeAlias = int | None
_DEFAULT_SIZE = 10
_ACQUIRE_SECONDS = 10.0
#: Time limit of the first try to connect. It is short, so that a lost network packet causes little
#: delay, and doubles after each timeout.
_FIRST_CONNECT_SECONDS = 2.0
_RETRY_SECONDS = (0.05, 0.3)
#: A call that has a connection for longer than this is considered stuck.
MAX_HOLD_SECONDS = 120.0
_FULL = ("too many", "remaining connection slots", "no more connections")


_Item = TypeVar("_Item")

MAX_QUEUED: Final = 256


class FairQueue(Generic[_Item]):
    """Queue of calls that wait for a connection.

    The org whose calls use the fewest connections is served first. If several orgs are active, each
    of them may use at most three quarters of the connections.
    """

    def __init__(self, size: int, most_waiting: int = MAX_QUEUED) -> None:
        self._share = size - size // 4
        self._most_waiting = most_waiting
        self._held: Counter[Hashable] = Counter()
        #: Waiting calls by org. If several orgs use equally few connections, the first of them in
        #: this dictionary is served.
        self._waiting: dict[Hashable, deque[_Item]] = {}
        self._first_org: Hashable = None
        self._most_each = size

    def register(self, org: Hashable) -> None:
        """Record that an org has calls. Calls of the server itself (None) do not count."""
        if org == self._first_org or org is None:
            return
        if self._first_org is None:
            self._first_org = org
        else:
            self._most_each = self._share

    def can_acquire(self, org: Hashable) -> bool:
        return self._held.get(org, 0) < self._most_each

    def acquire(self, org: Hashable) -> None:
        self._held[org] += 1

    def release(self, org: Hashable) -> None:
        self._held[org] -= 1
        if not self._held[org]:
            del self._held[org]

    def enqueue(self, org: Hashable, waiting: _Item) -> None:
        queue = self._waiting.setdefault(org, deque())
        if len(queue) >= self._most_waiting:
            raise Busy(
                f"{self._most_waiting} calls of your org wait for the database already; nothing "
                "was written. Wait a second, then repeat the call, and make fewer at a time",
                limit=self._most_waiting,
            )
        queue.append(waiting)

    def dequeue(self, org: Hashable, waiting: _Item) -> None:
        queue = self._waiting.get(org, ())
        if waiting in queue:
            self._waiting[org].remove(waiting)
            if not queue:
                del self._waiting[org]

    def pop_next(self) -> tuple[Hashable, _Item] | None:
        """Remove and return the next call with its org, or None if every org must wait."""
        ready = [org for org in self._waiting if self.can_acquire(org)]
        if not ready:
            return None
        org = min(ready, key=self._held.__getitem__)
        queue = self._waiting.pop(org)
        waiting = queue.popleft()
        if queue:
            self._waiting[org] = queue
        self.acquire(org)
        return org, waiting

    def waiting_count(self) -> int:
        return sum(map(len, self._waiting.values()))


class _PoolUsage(NamedTuple):
    size: int
    open: int
    in_use: int
    waiting: int


class ConnectionPool:
    def __init__(
        self,
        dsn: str,
        *,
        size: int = _DEFAULT_SIZE,
        timeout: float = _ACQUIRE_SECONDS,
        lock_timeout: str = LOCK_TIMEOUT,
    ) -> None:
        self.dsn = dsn
        self.size = size
        self.timeout = timeout
        self.wire = WireSettings(lock_timeout)
        self._free: list[DbConnection] = []
        self._held: dict[DbConnection, float] = {}
        self._places = 0
        self._closed = False
        self._turns: FairQueue[asyncio.Future[DbConnection | None]] = FairQueue(size)

    async def acquire(self, org: Org) -> DbConnection:
        """Return a connection for a call of this org. The caller must `release` it.

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
                # The server of this connection may be down. The free connections lead to the same
                # server, so discard them too.
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

    def usage(self) -> _PoolUsage:
        return _PoolUsage(self.size, self._places, len(self._held), self._turns.waiting_count())

    def is_stuck(self) -> bool:
        """Return whether a connection has been in use for longer than any call should take."""
        if not self._held:
            return False
        oldest = min(self._held.values())
        return asyncio.get_running_loop().time() - oldest > MAX_HOLD_SECONDS

    async def _next(self, org: Org, deadline: float) -> DbConnection | None:
        """Return a connection for the org, or None if the caller should try again."""
        if self._closed:
            raise Unavailable("this server is shutting down; repeat the call on another server")
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
            open_host = partial(self._connect_host, deadline=deadline)
            connection = await first_opened(self.dsn, open_host, self._must_share)
            new = DbConnection(connection, self.wire)
        except BaseException as error:
            self._places -= 1
            self._turns.release(org)
            if self._must_share(error):
                if self._free:
                    self._turns.acquire(org)
                    return self._free.pop()
                return await self._wait(org, deadline)
            self._pass_on(None)
            if isinstance(error, psycopg.Error | TimeoutError):
                raise _unreachable() from error
            raise
        if follows_primary(self.dsn):
            # Close the connections to earlier primary servers.
            for line in [line for line in self._held if line.server != new.server]:
                line.give_up()
            self._discard_free(line for line in self._free if line.server != new.server)
        return new

    def _discard_free(self, lines: Iterable[DbConnection]) -> None:
        for line in list(lines):
            self._free.remove(line)
            self._discard(line)

    def _must_share(self, error: BaseException) -> bool:
        """Return whether the call must wait for one of the pool's connections.

        The call must wait if the database server has too many connections to accept a new one, and
        the pool already has connections.
        """
        is_full = any(words in str(error) for words in _FULL)
        return isinstance(error, psycopg.Error) and is_full and bool(self._held or self._free)

    async def _connect_host(self, dsn: str, *, deadline: float) -> AsyncConnection[TupleRow]:
        loop, limit, pause = asyncio.get_running_loop(), _FIRST_CONNECT_SECONDS, _RETRY_SECONDS[0]
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
                pause = min(2 * pause, _RETRY_SECONDS[1])
                if self._closed or loop.time() + pause >= deadline or self._must_share(error):
                    raise
                await asyncio.sleep(uniform(pause / 2, pause))  # noqa: S311 - spreads the load

    async def _wait(self, org: Org, deadline: float) -> DbConnection | None:
        """Wait for a released connection, or return None once the call may open a new one."""
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
        """Give this connection to the next waiting call.

        Without a connection to give, allow the next waiting call to open a new connection.
        """
        while served := self._turns.pop_next():
            org, turn = served
            if not turn.done():
                turn.set_result(line)
                return
            self._turns.release(org)
        if line is not None:
            self._free.append(line)

    def _discard(self, line: DbConnection) -> None:
        self._places -= 1
        line.close()
        self._pass_on(None)


def _unreachable() -> Unavailable:
    return Unavailable("the database cannot be reached right now; try again")


T = TypeVar("T")
#: Function that is called with the last error, the seconds waited so far, and the maximum.
WaitReport: TypeAlias = Callable[[str, float, float], None]
#: Pause between two tries to connect, in seconds.
PAUSE_SECONDS: Final = 0.5
#: Error texts of a server that will accept connections later. Every other refusal is final.
_TRANSIENT: Final = (
    *("starting up", "shutting down", "recovery", "not yet accepting", "too many"),
    "terminating connection",
    # Error texts of a connection pooler that cannot reach its database server.
    *("server login has been failing", "server_login_retry", "cannot connect to server"),
    *("query_wait_timeout", "no more connections"),
)


async def retry_start(start: Callable[[], Awaitable[T]], seconds: float, report: WaitReport) -> T:
    """Call `start` again and again until it succeeds or the time is over.

    Only errors of an unreachable database are retried.

    Raises:
        Unavailable: the database was not ready within the given seconds, or refused a connection
            permanently (a wrong password, an unknown database).
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        try:
            return await start()
        except Unavailable as error:
            obstacle = " ".join(str(error.__cause__ or error).split())
            if "FATAL:" in obstacle and not any(words in obstacle for words in _TRANSIENT):
                raise
            waited = loop.time() - begun
            if waited + PAUSE_SECONDS > seconds:
                text = f"the database was not ready within {seconds:g} seconds: {obstacle}"
                raise Unavailable(text) from error
        report(obstacle, waited, seconds)
        await asyncio.sleep(PAUSE_SECONDS)
