"""The pool, and the one kind of transaction there is: of one tenant, in two messages.

A message is several statements sent at once and answered at once. The first opens the
transaction, names the tenant, locks and loads; the last writes everything and commits. Nothing
goes back and forth in between.

Statements are prepared once per connection and executed by name, which spares the server the
planning. Behind a pooler that hands out another connection for each transaction this cannot
work; the first sign of one switches it off.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary

import orjson
import psycopg
from psycopg import AsyncConnection, errors, generators
from psycopg.abc import Transformer as TransformerProtocol
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from waybook.errors import Busy, Unavailable
from waybook.store.sql import Statement, literal

log = logging.getLogger(__name__)

Connection: TypeAlias = AsyncConnection[TupleRow]
Pool: TypeAlias = AsyncConnectionPool[Connection]
#: One result per statement: its rows.
Results: TypeAlias = list[list[tuple[Any, ...]]]

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "10s"
CANCEL_SECONDS = 5
#: Our statements look rows up by key: one plan serves all values, and goes through indexes.
BY_KEY = (
    f"set statement_timeout = '{STATEMENT_TIMEOUT}'",
    "set plan_cache_mode = force_generic_plan",
    "set enable_seqscan = off",
    "set enable_hashjoin = off",
    "set enable_mergejoin = off",
)


PLAN_ANEW_FIRST = 16
PLAN_ANEW_EVERY = 4096


class Taken(Exception):
    """A row with this key is there already: somebody else was first."""

    def __init__(self, constraint: str) -> None:
        """Remember which key."""
        super().__init__(constraint)
        self.constraint = constraint


class Forgotten(Exception):
    """The server does not know what we prepared: a pooler stands in between."""


@dataclass(slots=True)
class Line:
    """What we know of one connection: what is prepared there, and how its values are read."""

    transformer: TransformerProtocol
    prepared: set[str] = field(default_factory=set)
    messages: int = 0
    plan_anew_at: int = PLAN_ANEW_FIRST

    def is_new(self) -> bool:
        """Whether nothing has gone over it yet."""
        return self.messages == 0

    def new_plans(self) -> tuple[str, ...]:
        """Now and then, have the server make its plans anew.

        A plan made while a table was nearly empty may take a poor index, and is kept. So plans
        are made anew as the tables grow: after 16 messages, 64, 256, …, then every 4,096.
        """
        self.messages += 1
        if self.messages < self.plan_anew_at:
            return ()
        self.plan_anew_at = min(4 * self.messages, self.messages + PLAN_ANEW_EVERY)
        return ("discard plans",)


@dataclass(slots=True)
class Wire:
    """How statements go out: prepared or as text, and what we know of each connection."""

    #: What a connection is told first; behind a pooler, which shares connections, every time.
    greeting: tuple[str, ...] = BY_KEY
    preparing: bool = True
    lines: WeakKeyDictionary[Connection, Line] = field(default_factory=WeakKeyDictionary)

    def line(self, connection: Connection) -> Line:
        """What we know of this connection."""
        found = self.lines.get(connection)
        if found is None:
            set_json_loads(orjson.loads, connection)
            found = self.lines[connection] = Line(Transformer(connection))
        return found

    async def send(
        self, connection: Connection, opening: Sequence[str], statements: Sequence[Statement | str]
    ) -> Results:
        """Send one message; returns the results of the statements, not of the opening."""
        line = self.line(connection)
        texts, kept, new = [], [], set[str]()
        if opening:
            texts += [*self.greeting] if line.is_new() or not self.preparing else []
            texts += [*opening, *line.new_plans()]
        for statement in statements:
            if isinstance(statement, str) or not self.preparing or statement.name is None:
                texts.append(str(statement))
            else:
                if statement.name not in line.prepared and statement.name not in new:
                    texts.append(statement.prepare())
                    new.add(statement.name)
                texts.append(statement.execute())
            kept.append(len(texts) - 1)
        results = await _run(connection, ";\n".join(texts))
        line.prepared |= new
        return [_rows(line.transformer, results[place]) for place in kept]


class Tx:
    """A transaction of one tenant. It begins with the first message and ends with the last."""

    def __init__(self, connection: Connection, wire: Wire, opening: tuple[str, ...]) -> None:
        self._connection = connection
        self._wire = wire
        self._opening = opening

    async def send(self, *statements: Statement | str) -> Results:
        """Send statements in the transaction, opening it if this is the first message."""
        opening, self._opening = self._opening, ()
        return await _send(self._connection, self._wire, opening, statements)

    async def commit(self, *statements: Statement | str) -> Results:
        """Send the last statements and commit, in one message."""
        return (await self.send(*statements, "commit"))[:-1]


class Lent:
    """A connection lent for one transaction, and taken back clean whatever happened to it."""

    def __init__(self, pool: Pool, wire: Wire, opening: tuple[str, ...]) -> None:
        self._pool = pool
        self._wire = wire
        self._opening = opening
        self._connection: Connection | None = None

    async def __aenter__(self) -> Tx:
        try:
            self._connection = await self._pool.getconn()
        except (PoolTimeout, PoolClosed) as fault:
            raise Unavailable("the database cannot be reached right now; try again") from fault
        return Tx(self._connection, self._wire, self._opening)

    async def __aexit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await _leave_clean(connection)
            finally:
                await self._pool.putconn(connection)


class Database:
    def __init__(
        self, pool: Pool, *, role: str | None = None, lock_timeout: str = LOCK_TIMEOUT
    ) -> None:
        """Use this pool; `role` is taken in each transaction."""
        self.pool = pool
        self.wire = Wire((f"set lock_timeout = '{lock_timeout}'", *BY_KEY))
        self._role = role
        #: For tests: the time it always is.
        self.frozen_now: datetime | None = None

    def tenant(self, org_id: UUID) -> "Lent":
        """A transaction in which only this org exists. Unless committed, nothing happened."""
        return Lent(self.pool, self.wire, self._opening("begin", org_id))

    async def read(self, org_id: UUID, *statements: Statement | str) -> Results:
        """One snapshot of this org, in one message."""
        opening = self._opening("begin isolation level repeatable read read only", org_id)
        async with Lent(self.pool, self.wire, opening) as tx:
            return await tx.commit(*statements)

    async def directory(self) -> list[UUID]:
        """The ids of all orgs, for a sweep to visit one by one."""
        opening = ("begin read only", "set local app.sweep = 'on'", *self._set_role())
        async with Lent(self.pool, self.wire, opening) as tx:
            (found,) = await tx.commit("select org_id from org")
        return [row[0] for row in found]

    def _opening(self, begin: str, org_id: UUID) -> tuple[str, ...]:
        frozen = self.frozen_now
        return (
            begin,
            *self._set_role(),
            f"set local app.org_id = {literal(org_id)}",
            *((f"set local app.now = {literal(frozen)}",) if frozen else ()),
        )

    def _set_role(self) -> tuple[str, ...]:
        return (f"set local role {self._role}",) if self._role else ()


async def _send(
    connection: Connection,
    wire: Wire,
    opening: tuple[str, ...],
    statements: tuple[Statement | str, ...],
) -> Results:
    """Send a message; a pooler in between is noticed, and an opening message sent again."""
    try:
        return await wire.send(connection, opening, statements)
    except Forgotten as fault:
        wire.preparing = False
        log.warning("a pooler stands before the database: statements are no longer prepared")
        if not opening:
            raise Busy from fault
        await connection.rollback()
        return await wire.send(connection, opening, statements)
    except BaseException:
        wire.lines.pop(connection, None)
        await _start_afresh(connection)
        raise


async def _start_afresh(connection: Connection) -> None:
    """Undo what a failed message left behind; a connection that cannot do that is given up."""
    try:
        await connection.rollback()
        await connection.execute("deallocate all")
    except psycopg.Error:
        await connection.close()


async def _run(connection: Connection, text: str) -> list[PGresult]:
    """Send one text of several statements and wait for its results, the driver's short way."""
    try:
        connection.pgconn.send_query(text.encode())
        results = await _answers(connection)
        if results[-1].status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(results[-1], encoding=connection.info.encoding)
    except errors.UniqueViolation as fault:
        raise Taken(fault.diag.constraint_name or "") from fault
    except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement) as fault:
        raise Forgotten from fault
    except (errors.LockNotAvailable, errors.DeadlockDetected, errors.QueryCanceled) as fault:
        raise Busy from fault
    except psycopg.OperationalError as fault:
        log.warning("database out of reach: %s", fault)
        raise Unavailable(
            "the connection to the database broke; whether the call took effect is not known. "
            "Repeat it with the same idempotencyKey: it will not count twice"
        ) from fault
    else:
        return results


async def _answers(connection: Connection) -> list[PGresult]:
    """Wait for all answers to what was sent.

    The usual case is done by hand, for it is done in every call: all went out at once, and the
    answers come in one piece. Sending in pieces and being cancelled are left to the driver.
    """
    pgconn, results = connection.pgconn, list[PGresult]()
    if pgconn.flush():
        return await connection.wait(generators.execute(pgconn))
    try:
        while True:
            while pgconn.is_busy():
                await _readable(pgconn.socket)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                return results
            results.append(result)
    except asyncio.CancelledError:
        await connection.cancel_safe(timeout=CANCEL_SECONDS)
        await connection.wait(generators.fetch_many(pgconn))
        raise


async def _readable(socket: int) -> None:
    """Wait until there is something to read."""
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    loop.add_reader(socket, _arrive, arrived)
    try:
        await arrived
    finally:
        loop.remove_reader(socket)


def _arrive(arrived: "asyncio.Future[None]") -> None:
    if not arrived.done():
        arrived.set_result(None)


def _rows(transformer: TransformerProtocol, result: PGresult) -> list[tuple[Any, ...]]:
    if result.status != ExecStatus.TUPLES_OK:
        return []
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


async def _leave_clean(connection: Connection) -> None:
    if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE:
        await connection.rollback()
