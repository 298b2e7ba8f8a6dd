"""The pool, and the one kind of transaction there is: of one tenant, in two messages.

A message is several statements sent at once and answered at once. The first opens the
transaction, names the tenant, locks and loads; the last writes everything and commits. Nothing
goes back and forth in between.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from waybook.errors import Busy, Unavailable
from waybook.store.sql import literal

log = logging.getLogger(__name__)

#: One result per statement: its rows.
Results: TypeAlias = list[list[tuple[Any, ...]]]

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "10s"


class Taken(Exception):
    """A row with this key is there already: somebody else was first."""

    def __init__(self, constraint: str) -> None:
        """Remember which key."""
        super().__init__(constraint)
        self.constraint = constraint


class Tx:
    """A transaction of one tenant. It begins with the first message and ends with the last."""

    def __init__(self, connection: AsyncConnection[TupleRow], opening: tuple[str, ...]) -> None:
        self._connection = connection
        self._opening = opening

    async def send(self, *statements: str) -> Results:
        """Send statements in the transaction, opening it if this is the first message."""
        return await self._message(statements)

    async def commit(self, *statements: str) -> Results:
        """Send the last statements and commit, in one message."""
        return (await self._message((*statements, "commit")))[:-1]

    async def _message(self, statements: tuple[str, ...]) -> Results:
        opening, self._opening = self._opening, ()
        return (await _run(self._connection, (*opening, *statements)))[len(opening) :]


class Database:
    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection[TupleRow]],
        *,
        role: str | None = None,
        frozen_now: datetime | None = None,
        lock_timeout: str = LOCK_TIMEOUT,
    ) -> None:
        """Use this pool; `role` is taken in each transaction; the other two are for tests."""
        self.pool = pool
        self._role = role
        self.frozen_now = frozen_now
        self._lock_timeout = lock_timeout

    @asynccontextmanager
    async def tenant(self, org_id: UUID) -> AsyncIterator[Tx]:
        """A transaction in which only this org exists. Unless committed, nothing happened."""
        async with self._connection() as connection:
            try:
                yield Tx(connection, self._opening("begin", org_id))
            finally:
                await _leave_clean(connection)

    async def read(self, org_id: UUID, *statements: str) -> Results:
        """One snapshot of this org, in one message."""
        begin = "begin isolation level repeatable read read only"
        return await self._once(self._opening(begin, org_id), statements)

    async def directory(self) -> list[UUID]:
        """The ids of all orgs, for a sweep to visit one by one."""
        opening = ("begin read only", "set local app.sweep = 'on'", *self._set_role())
        (found,) = await self._once(opening, ("select org_id from org",))
        return [row[0] for row in found]

    async def _once(self, opening: tuple[str, ...], statements: tuple[str, ...]) -> Results:
        async with self._connection() as connection:
            try:
                everything = await _run(connection, (*opening, *statements, "commit"))
                return everything[len(opening) : -1]
            finally:
                await _leave_clean(connection)

    def _opening(self, begin: str, org_id: UUID) -> tuple[str, ...]:
        frozen = f"set local app.now = {literal(self.frozen_now)}" if self.frozen_now else ""
        return (
            begin,
            *self._set_role(),
            f"set local app.org_id = {literal(org_id)}",
            f"set local lock_timeout = '{self._lock_timeout}'",
            f"set local statement_timeout = '{STATEMENT_TIMEOUT}'",
            *((frozen,) if frozen else ()),
        )

    def _set_role(self) -> tuple[str, ...]:
        return (f"set local role {self._role}",) if self._role else ()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[TupleRow]]:
        try:
            async with self.pool.connection() as connection:
                yield connection
        except (PoolTimeout, PoolClosed) as fault:
            raise Unavailable("the database cannot be reached right now; try again") from fault


async def _run(connection: AsyncConnection[TupleRow], statements: tuple[str, ...]) -> Results:
    try:
        cursor = await connection.execute(";\n".join(statements).encode(), prepare=False)
        results = [await _rows(cursor)]
        while cursor.nextset():
            results.append(await _rows(cursor))
    except errors.UniqueViolation as fault:
        raise Taken(fault.diag.constraint_name or "") from fault
    except (errors.LockNotAvailable, errors.DeadlockDetected, errors.QueryCanceled) as fault:
        raise Busy from fault
    except psycopg.OperationalError as fault:
        log.warning("database out of reach: %s", fault)
        raise Unavailable(
            "the connection to the database broke; whether the call took effect is not known. "
            "Repeat it with the same idempotencyKey: it will not count twice"
        ) from fault
    return results


async def _rows(cursor: psycopg.AsyncCursor[TupleRow]) -> list[tuple[Any, ...]]:
    return await cursor.fetchall() if cursor.description else []


async def _leave_clean(connection: AsyncConnection[TupleRow]) -> None:
    if not connection.closed and connection.pgconn.transaction_status != 0:
        await connection.rollback()
