"""Transactions that see the rows of one org only, and an estimate of the database clock.

A transaction takes two round trips: the first one loads and locks rows, the second one writes and
commits.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Self, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from waybook.core.histograms import Histogram
from waybook.errors import StaleCredential
from waybook.store.driver.connection import NO_ORG, DbConnection, Message, Results, WireSettings
from waybook.store.driver.connection import SQL as WIRE_SQL
from waybook.store.driver.group_commit import Call, GroupCommit
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import Query, Statement, first_column, first_value
from waybook.tracing import TRACING


class CredentialCheck:
    """A check of the caller's cached credential, sent with the first SQL statements of the call.

    With this check, a revoked token is refused immediately by every process, without an extra round
    trip.
    """

    __slots__ = ("is_failed", "is_passed", "org_id", "statement")

    def __init__(self, org_id: UUID, statement: Statement) -> None:
        self.org_id = org_id
        self.statement = statement
        self.is_passed = False
        self.is_failed = False

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.is_passed = True
        elif issubclass(kind, StaleCredential):
            self.is_failed = True


CURRENT_CHECK: Final[ContextVar[CredentialCheck | None]] = ContextVar("credential", default=None)


def pending_check(org_id: UUID) -> CredentialCheck | None:
    """Return the check that must begin the next transaction, or None if nothing is left to check.

    Raises:
        StaleCredential: the current call's check has failed.
        RuntimeError: the current call's credential belongs to another org.
    """
    check = CURRENT_CHECK.get()
    if check is None or check.is_passed:
        return None
    if check.is_failed:
        raise StaleCredential
    if check.org_id != org_id:
        raise RuntimeError("the credential of this call belongs to another org")
    return check


class Clock:
    """Estimates the database clock from the last time that the database reported."""

    def __init__(self) -> None:
        self._last_reading: tuple[datetime, float] | None = None

    def set(self, now: datetime) -> None:
        self._last_reading = now, time.monotonic()

    def now(self) -> datetime | None:
        if self._last_reading is None:
            return None
        then, heard = self._last_reading
        return then + timedelta(seconds=time.monotonic() - heard)


BEGIN = Query("begin", "begin")()
BEGIN_READING = Query("begin_reading", "begin isolation level repeatable read read only")()
_COMMIT = Query("commit", "commit")()


class Transaction:
    def __init__(
        self,
        pool: ConnectionPool,
        opening: Message,
        turn: UUID | None,
        org: bytes = NO_ORG,
        check: CredentialCheck | None = None,
    ) -> None:
        """Prepare a transaction.

        The pool shares connections fairly between different values of `turn`, normally org ids.
        """
        self._pool = pool
        self._opening = opening
        self._turn = None if turn is None else turn.int
        self._org = org
        self._check = check
        self._line: DbConnection | None = None
        self.is_traced = True

    async def __aenter__(self) -> Self:
        self._line = await self._pool.acquire(self._turn)
        self._line.org = self._org
        return self

    async def __aexit__(self, *_: object) -> None:
        line, self._line = self._line, None
        if line is not None:
            await self._pool.release(line, self._turn)

    async def send(self, *statements: Statement | str) -> Results:
        """Send statements in the transaction. The first call also begins it."""
        tracer = TRACING.tracer if self.is_traced else None
        span = None if tracer is None else tracer.message(len(statements))
        if span is None:
            return await self._send(statements)
        with span:
            return await self._send(statements)

    async def _send(self, statements: Message) -> Results:
        opening, self._opening = self._opening, ()
        check, self._check = self._check, None
        if self._line is None:
            raise RuntimeError("the transaction has no connection")
        if check is None:
            return await self._line.send(opening, statements)
        with check:
            return (await self._line.send(opening, (check.statement, *statements)))[1:]

    async def commit(self, *statements: Statement | str) -> Results:
        return (await self.send(*statements, _COMMIT))[:-1]


class Database:
    def __init__(self, pool: ConnectionPool, *, role: str | None = None) -> None:
        self.pool = pool
        self._role = (Query("take_role", f"set local role {role}")(),) if role else ()
        #: Time that tests and the demo set in place of the current time.
        self.frozen_now: datetime | None = None
        #: Whether new plans and runs are marked as simulated.
        self.is_simulated = False
        self.clock = Clock()
        #: Clients of the agents of each org, and when they were read.
        self.agent_clients: dict[UUID, tuple[float, Mapping[Any, str]]] = {}
        self._groups = GroupCommit(self._write_org)
        #: Concurrent requests with the same secret share one lookup.
        self.lookups = _SharedReads()

    @property
    def wire(self) -> WireSettings:
        return self.pool.wire

    @property
    def group_sizes(self) -> Histogram:
        return self._groups.sizes

    def close(self) -> None:
        self.pool.close()

    def now(self) -> datetime | None:
        return self.frozen_now or self.clock.now()

    def org_transaction(self, org_id: UUID) -> Transaction:
        org = str(org_id)
        opening, check = self._opening(BEGIN, org), pending_check(org_id)
        return Transaction(self.pool, opening, org_id, org.encode(), check)

    def has_calls(self, org_id: UUID) -> bool:
        return self._groups.has_calls(org_id)

    async def commit(self, call: Call) -> Results:
        """Send a call's statements, possibly together with other calls, and commit.

        Raises:
            StaleCredential: the caller's cached credential does not match the database.
        """
        tracer = TRACING.tracer
        span = None if tracer is None else tracer.message(len(call.statements))
        if span is None:
            return await self._groups.commit(call)
        with span:
            return await self._groups.commit(call)

    async def read_org(self, org_id: UUID, *statements: Statement | str) -> Results:
        org = str(org_id)
        opening, check = self._opening(BEGIN_READING, org), pending_check(org_id)
        async with Transaction(self.pool, opening, org_id, org.encode(), check) as tx:
            return await tx.commit(*statements)

    async def read_now(self, org_id: UUID) -> datetime:
        (rows,) = await self.read_org(org_id, "select app_now()")
        now: datetime = first_value(rows)
        return now

    async def is_cluster(self) -> bool:
        if self.wire.is_cluster is None:
            await self.read_global("select app_now()")
        return bool(self.wire.is_cluster)

    async def read_by_secret(
        self, secret_hash: bytes, *statements: Statement | str, org_id: UUID | None = None
    ) -> Results:
        """Read the rows to which the secret with this hash gives access, in one round trip."""
        named = f"set local app.secret_hash = '{secret_hash.hex()}'"
        opening, turn = self._opened(BEGIN_READING, named), UUID(bytes=secret_hash[:16])
        org = NO_ORG if org_id is None else str(org_id).encode()
        async with Transaction(self.pool, opening, turn, org) as tx:
            return await tx.commit(*statements)

    async def read_by_slug(self, slug: str, *statements: Statement | str) -> Results:
        opening = self._opened(BEGIN_READING, "set local app.sweep = 'on'")
        turn = UUID(bytes=sha256(slug.encode()).digest()[:16])
        async with Transaction(self.pool, opening, turn) as tx:
            return await tx.commit(*statements)

    async def list_org_ids(
        self, statement: Statement | str = "select org_id from org"
    ) -> list[UUID]:
        (rows,) = await self.read_directory(statement)
        return first_column(rows)

    async def read_directory(self, *statements: Statement | str) -> Results:
        """Read the list of orgs in one round trip. No other rows are visible."""
        opening = (BEGIN_READING, *self._role, "set local app.sweep = 'on'")
        async with Transaction(self.pool, opening, None) as tx:
            return await tx.commit(*statements)

    async def read_global(self, *statements: Statement | str) -> Results:
        """Run statements in a transaction in which no org's rows are visible."""
        async with Transaction(self.pool, (BEGIN, *self._role), None) as tx:
            return await tx.commit(*statements)

    async def check_ready(self) -> None:
        """Check that the database answers and, if its disk was full, that it has space again.

        Raises:
            DiskFull: the disk is still full.
            Unavailable: the database cannot be reached.
        """
        probe = (WIRE_SQL["set_small_memory"](), WIRE_SQL["write_temporary_file"]())
        await self.read_global("select app_now()", *(probe if self.wire.is_disk_full else ()))
        self.wire.is_disk_full = False

    @property
    def dsn(self) -> str:
        return self.pool.dsn

    async def _write_org(self, org_id: UUID, statements: Message) -> Results:
        org = str(org_id)
        opening = self._opening(BEGIN, org)
        async with Transaction(self.pool, opening, org_id, org.encode()) as tx:
            tx.is_traced = False
            return await tx.commit(*statements)

    def _opening(self, begin: Statement, org: str) -> Message:
        return self._opened(begin, f"set local app.org_id = '{org}'")

    def _opened(self, begin: Statement, named: str) -> Message:
        opening: Message = (begin, *self._role, named)
        if self.wire.is_cluster:
            # Set the lock timeout in each transaction, because the nodes of a Citus cluster ignore
            # the setting of the session.
            opening = (*opening, f"set local lock_timeout = '{self.wire.lock_timeout}'")
        if self.frozen_now is None:
            return opening
        return (*opening, f"set local app.now = '{self.frozen_now.isoformat()}'")


T = TypeVar("T")


class _SharedReads:
    """Runs one read per key at a time.

    Calls that arrive during a read do not share its result. They share the next read, so that each
    call sees everything that was committed before the call.
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[Any]] = {}
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def read(self, key: Hashable, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a read that begins after this call."""
        task: asyncio.Task[T] | None = self._next.get(key)
        if task is None:
            lock = self._locks.setdefault(key, asyncio.Lock())
            task = self._next[key] = asyncio.create_task(self._run(key, lock, read))
        return await asyncio.shield(task)

    async def _run(
        self, key: Hashable, lock: asyncio.Lock, read: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        async with lock:
            del self._next[key]
            return await read()
