"""One connection, and how a message goes over it and comes back.

A message is several statements sent at once and answered at once, in the protocol's pipeline mode,
values beside the texts. Statements are prepared once per connection and executed by name, which
spares the server the planning. A pooler hands out another connection for each transaction: names
would get lost there, and settings. Every connection is asked first who is at its other end; behind
a pooler nothing is prepared, and settings go with each transaction.

The driver's own way through a message is a general one. Ours is for the case that happens in every
call: all goes out at once, and the answers come in one piece. Whatever else may happen is left to
the driver.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
import psycopg
from psycopg import AsyncConnection, errors
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads
from psycopg.waiting import Ready, Wait

from waybook.errors import Busy, Unavailable
from waybook.store.sql import Form, Query, Statement, load, plain

log = logging.getLogger(__name__)

SQL = load("line")

Connection: TypeAlias = AsyncConnection[TupleRow]
#: One result per statement: its rows.
Results: TypeAlias = list[list[tuple[Any, ...]]]
#: What a message consists of; a plain text is a statement that is not prepared.
Message: TypeAlias = Sequence[Statement | str]

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "10s"
CANCEL_SECONDS = 5
#: The server process of nobody: what is set for it holds for one transaction.
NO_PROCESS = 0
PLAN_ANEW_FIRST = 16
PLAN_ANEW_EVERY = 4096
SUCCESSES = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})
DISCARD_PLANS = Query("discard_plans", "discard plans")()


class Taken(Exception):
    """A row with this key is there already: somebody else was first."""

    def __init__(self, constraint: str) -> None:
        """Remember which key."""
        super().__init__(constraint)
        self.constraint = constraint


class Outdated(Exception):
    """What a call relied upon is not so any more; nothing was written. It has to look again."""


class Forgotten(Exception):
    """The server does not know what we prepared: a pooler stands in between."""


@dataclass(slots=True)
class Wire:
    """How messages go out, over all connections alike."""

    lock_timeout: str = LOCK_TIMEOUT
    statement_timeout: str = STATEMENT_TIMEOUT
    #: Whether a pooler stands between us and the server.
    pooled: bool = False

    def greeting(self, pid: int) -> Statement:
        """The settings, for the session of this server process, else for one transaction."""
        return SQL["greet"](
            lock_timeout=self.lock_timeout, statement_timeout=self.statement_timeout, pid=pid
        )

    def notice_a_pooler(self) -> None:
        """Rely on nothing that is kept with a connection, from now on."""
        if not self.pooled:
            log.warning("a pooler stands before the database: statements are not prepared")
        self.pooled = True


@dataclass(slots=True)
class PlansInUse:
    """The server's plans for what is prepared on a connection.

    A plan made while a table was nearly empty may take a poor index, and is kept. So plans are
    made anew as the tables grow: after 16 messages, 64, 256, …, then every 4,096.
    """

    messages: int = 0
    anew_at: int = PLAN_ANEW_FIRST

    def grown_old(self) -> bool:
        """Count a message, and tell whether the plans should be made anew with it."""
        self.messages += 1
        if self.messages < self.anew_at:
            return False
        self.anew_at = min(4 * self.messages, self.messages + PLAN_ANEW_EVERY)
        return True


class Line:
    def __init__(self, connection: Connection) -> None:
        """A connection nothing has gone over yet."""
        set_json_loads(orjson.loads, connection)
        self.connection = connection
        self._transformer = Transformer(connection)
        self._prepared: set[bytes] = set()
        self._plans = PlansInUse()
        self._greeted = False
        self._loop = asyncio.get_running_loop()
        #: The socket the loop listens to for us; the driver forgets it when it breaks.
        self._heard: int | None = None
        self._arrived: asyncio.Future[None] | None = None

    # Sending

    async def send(self, wire: Wire, opening: Message, statements: Message) -> Results:
        """Send one message; returns the results of the statements, not of the opening.

        Raises:
            Taken: a row with its key is there already.
            Outdated: a statement found things otherwise than it was told they are.
            Busy: the lock did not come, or a pooler stands in between; nothing was written.
            Unavailable: the connection broke.
        """
        try:
            if not self._greeted and not wire.pooled:
                await self._greet(wire)
            return await self._send(wire, opening, statements)
        except Forgotten as fault:
            wire.notice_a_pooler()
            await self._start_afresh()
            if not opening:
                raise Busy from fault
            return await self._send(wire, opening, statements)
        except BaseException:
            await self._start_afresh()
            raise

    async def _greet(self, wire: Wire) -> None:
        """Settle in, in a message of its own, for what is set in a transaction goes with it."""
        process = self.connection.pgconn.backend_pid
        ((told,),) = await self._send(wire, (), (_unprepared(wire.greeting(process)),))
        self._greeted = True
        if told[0] != process:
            wire.notice_a_pooler()

    async def _send(self, wire: Wire, opening: Message, statements: Message) -> Results:
        if opening:
            opening = self._opening(wire, opening)
        pgconn = self.connection.pgconn
        try:
            pgconn.enter_pipeline_mode()
            places = self._post((*opening, *statements), preparing=not wire.pooled)
            pgconn.pipeline_sync()
            if pgconn.flush():
                await self._flush()
            results = await self._answers()
            pgconn.exit_pipeline_mode()
            _check(results)
        except errors.UniqueViolation as fault:
            raise Taken(fault.diag.constraint_name or "") from fault
        except errors.DivisionByZero as fault:
            raise Outdated from fault
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
        return [self._rows(results[place]) for place in places[len(opening) :]]

    def _opening(self, wire: Wire, opening: Message) -> Message:
        if wire.pooled:
            begin, *rest = opening
            return (begin, wire.greeting(NO_PROCESS), *rest)
        return (*opening, DISCARD_PLANS) if self._plans.grown_old() else opening

    def _post(self, message: Message, *, preparing: bool) -> list[int]:
        """Hand the message to the driver; returns which of its results each statement gets."""
        pgconn, prepared = self.connection.pgconn, self._prepared
        places, sent = [], 0
        for asked in message:
            (name, text), told = plain(asked) if isinstance(asked, str) else asked
            if name is None or not preparing:
                pgconn.send_query_params(text, told, result_format=Format.BINARY)
            else:
                if name not in prepared:
                    pgconn.send_prepare(name, text)
                    prepared.add(name)
                    sent += 1
                pgconn.send_query_prepared(name, told, result_format=Format.BINARY)
            places.append(sent)
            sent += 1
        return places

    def _rows(self, result: PGresult) -> list[tuple[Any, ...]]:
        if not result.ntuples:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    # Waiting

    async def _answers(self) -> list[PGresult]:
        """Wait for all answers to what was sent."""
        try:
            return await self._collect()
        except asyncio.CancelledError:
            self._stop_listening()
            await self.connection.cancel_safe(timeout=CANCEL_SECONDS)
            await self._collect()
            raise

    async def _collect(self) -> list[PGresult]:
        pgconn, results, ended = self.connection.pgconn, list[PGresult](), False
        while True:
            while pgconn.is_busy():
                await self._readable()
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:  # the end of one statement's answer
                if ended:
                    raise psycopg.OperationalError("the connection was lost")
                ended = True
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return results
            else:
                results.append(result)
                ended = False

    async def _readable(self) -> None:
        """Wait until there is something to read."""
        self._listen()
        self._arrived = self._loop.create_future()
        try:
            await self._arrived
        finally:
            self._arrived = None

    def _listen(self) -> None:
        """Have the loop listen to the connection: once, not for every message."""
        if self._heard is None:
            self._heard = self.connection.pgconn.socket
            self._loop.add_reader(self._heard, self._arrive)

    def _arrive(self) -> None:
        if self._arrived is None:
            self._hear_unasked()
        elif not self._arrived.done():
            self._arrived.set_result(None)

    def _hear_unasked(self) -> None:
        """Take in what the server says by itself; if it hung up, nobody will use this line."""
        try:
            self.connection.pgconn.consume_input()
        except psycopg.OperationalError:
            self._stop_listening()

    def _stop_listening(self) -> None:
        """Leave the waiting to the driver, which asks the loop by itself."""
        if self._heard is not None:
            self._loop.remove_reader(self._heard)
            self._heard = None

    async def _flush(self) -> None:
        """Send the rest of a message that is too large to go out at once."""
        self._stop_listening()
        await self.connection.wait(_flushing(self.connection))

    # Cleaning

    def is_clean(self) -> bool:
        """Whether the next transaction can begin here."""
        return self.connection.pgconn.transaction_status == TransactionStatus.IDLE

    async def clean(self) -> None:
        """Undo a transaction that was not committed."""
        self._stop_listening()
        if not self.connection.closed:
            await self.connection.rollback()
            self._listen()

    async def let_go(self) -> Connection:
        """The connection, as if nothing had gone over it."""
        self._stop_listening()
        if self._prepared and self.is_clean():
            await self._start_afresh()
        return self.connection

    async def _start_afresh(self) -> None:
        """Undo what a failed message left behind; a connection that cannot do that is given up."""
        self._stop_listening()
        prepared, self._prepared = self._prepared, set()
        try:
            self.connection.pgconn.exit_pipeline_mode()
            await self.connection.rollback()
            if prepared:
                await self.connection.execute("deallocate all")
        except psycopg.Error:
            await self.connection.close()


def _unprepared(statement: Statement) -> Statement:
    return Statement(Form(None, statement.form.text), statement.parameters)


def _flushing(connection: Connection) -> PQGen[None]:
    while connection.pgconn.flush():
        ready = yield Wait.RW
        if ready & Ready.R:
            connection.pgconn.consume_input()


def _check(results: list[PGresult]) -> None:
    """Raise the first error, if there is one: nothing behind it was carried out."""
    if results[-1].status in SUCCESSES:
        return
    failed = next(result for result in results if result.status == ExecStatus.FATAL_ERROR)
    raise errors.error_from_result(failed)
