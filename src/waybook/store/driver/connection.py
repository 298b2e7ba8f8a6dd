"""A database connection that sends several SQL statements per round trip.

Behind a connection pooler, statements are not prepared, and settings are sent with each
transaction.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson
import psycopg
from psycopg import AsyncConnection, errors
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads
from psycopg.waiting import Ready, Wait, wait_async

from waybook.errors import Busy, DiskFull, StaleCredential, Unavailable
from waybook.store.driver.queries import Query, Statement, load, named_row, raw_statement

log = logging.getLogger(__name__)

SQL = load("driver/connection")

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "6s"
#: If a Waybook server vanishes, PostgreSQL ends its transaction and releases the locks after this
#: time.
IDLE_IN_TRANSACTION_TIMEOUT = "10s"
#: Seconds to wait for an answer. This is longer than `STATEMENT_TIMEOUT`, so that PostgreSQL ends a
#: slow statement first and reports the reason.
MESSAGE_SECONDS = 7.5
PATIENT_STATEMENT_TIMEOUT = "10min"
PATIENT_MESSAGE_SECONDS = 630.0
#: A process id that no PostgreSQL backend has. Given this id, `set_session` applies settings to one
#: transaction only.
NO_BACKEND_PID = 0
SUCCESSES: Final = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})
#: Parameters by which a PostgreSQL server reports that it is read-only.
READ_ONLY_PARAMETERS: Final = (b"in_hot_standby", b"default_transaction_read_only")
BROKEN: Final = (
    "the connection to the database broke; whether the call took effect is not known. "
    "Repeat it with the same idempotencyKey: it will not count twice"
)
STANDBY: Final = (
    "the database server accepts no writes, because another one takes over; nothing was written. "
    "Wait a second, then repeat the call"
)
#: Value of the parameter `org` in a transaction without an org. It is not a valid id, so a query
#: that needs an org fails.
NO_ORG = b"no org"


class KeyConflict(Exception):
    """A row with this key already exists, because another call inserted it first."""

    def __init__(self, constraint: str) -> None:
        super().__init__(constraint)
        self.constraint = constraint


class StaleCache(Exception):
    """A call used outdated cached data and wrote nothing. The call must be repeated."""


class DroppedDecision(Exception):
    """The call's changes were dropped, because an earlier call on the run was not committed."""


#: Maps the SQLSTATE of a failed transaction, which wrote nothing, to the exception to raise. The
#: SQL function `app_refuse_unless` raises the codes that begin with WB.
REFUSALS: Final[Mapping[str | None, type[Exception]]] = {
    "WB001": StaleCache,
    "WB002": StaleCredential,
    errors.LockNotAvailable.sqlstate: Busy,
    errors.DeadlockDetected.sqlstate: Busy,
    errors.QueryCanceled.sqlstate: Busy,
    errors.DiskFull.sqlstate: DiskFull,
}


class PreparedStatementLost(Exception):
    """A prepared statement is missing, so a connection pooler must be in front of the database."""


@dataclass(slots=True)
class WireSettings:
    lock_timeout: str = LOCK_TIMEOUT
    statement_timeout: str = STATEMENT_TIMEOUT
    idle_timeout: str = IDLE_IN_TRANSACTION_TIMEOUT
    message_seconds: float = MESSAGE_SECONDS
    pooled: bool = False
    is_cluster: bool | None = None
    is_disk_full: bool = False

    def session_settings(self, pid: int) -> Statement:
        """Return a statement that sets the timeouts of the database session.

        Behind a connection pooler, it must be sent in every transaction.
        """
        return SQL["set_session"](
            lock_timeout=self.lock_timeout,
            statement_timeout=self.statement_timeout,
            idle_timeout=self.idle_timeout,
            pid=pid,
        )

    def be_patient(self) -> None:
        """Raise the timeouts to minutes, for commands that read the whole database."""
        self.statement_timeout = PATIENT_STATEMENT_TIMEOUT
        self.message_seconds = PATIENT_MESSAGE_SECONDS

    def assume_pooler(self) -> None:
        """Stop using prepared statements and session settings, which a pooler may lose."""
        if not self.pooled:
            log.warning("a pooler is in front of the database: statements are not prepared")
        self.pooled = True


def check(results: list[PGresult]) -> None:
    if results[-1].status in SUCCESSES:
        return
    failed = next(result for result in results if result.status == ExecStatus.FATAL_ERROR)
    raise errors.error_from_result(failed)


Connection: TypeAlias = AsyncConnection[TupleRow]
Results: TypeAlias = list[list[Any]]
Message: TypeAlias = Sequence[Statement | str]
_CANCEL_SECONDS = 1.0
_DISCARD_PLANS = Query("discard_plans", "discard plans")()
_ENDABLE = frozenset({TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR})
_ROLLBACK = "rollback"
#: psycopg returns times in the time zone of the connection to which the adapters belong. These
#: adapters belong to no connection, so psycopg returns times in UTC.
_ADAPTERS = AdaptersMap(psycopg.adapters)
set_json_loads(orjson.loads, _ADAPTERS)
#: Errors after which the connection may be unusable.
_LOST = (psycopg.OperationalError, errors.ReadOnlySqlTransaction, TimeoutError)
_DEALLOCATE_ALL = "deallocate all"
#: Number of transactions after which a connection first discards its query plans. The number then
#: grows up to `REPLAN_EVERY`.
_REPLAN_FIRST = 16
REPLAN_EVERY = 4096


def _flush(pgconn: PGconn) -> PQGen[None]:
    while pgconn.flush():
        ready = yield Wait.RW
        if ready & Ready.R:
            pgconn.consume_input()


class DbConnection:
    def __init__(self, connection: Connection, wire: WireSettings) -> None:
        self.connection = connection
        self.org = NO_ORG
        self._wire = wire
        self._transformer = Transformer(_ADAPTERS)
        self._prepared: set[bytes] = set()
        self._prepared_before = 0
        self._messages = 0
        self._replan_at = _REPLAN_FIRST
        self._greeted = False
        self._loop = asyncio.get_running_loop()
        #: Socket that is registered with the event loop. It is stored here to unregister it later,
        #: because psycopg does not return the socket of a broken connection.
        self._heard: int | None = None
        self._arrived: asyncio.Future[None] | None = None
        self.server = connection.pgconn.host, connection.pgconn.hostaddr, connection.pgconn.port
        self.is_lost = False

    async def send(self, opening: Message, statements: Message) -> Results:
        """Send both lists of statements in one round trip, and return the results of `statements`.

        Raises:
            KeyConflict: a row to insert has the key of an existing row.
            StaleCache: the cached data from which the statements were made is out of date.
            StaleCredential: the caller's cached credential does not match the database.
            Busy: a row lock was not granted in time, or a connection pooler was detected; nothing
                was written.
            Unavailable: the connection broke, or the answer did not arrive in time.
        """
        try:
            if not self._greeted and not self._wire.pooled:
                await self._greet()
            return await self._send(opening, statements)
        except PreparedStatementLost as error:
            self._wire.assume_pooler()
            self._prepared_before = 0
            await self._reset()
            if not opening:
                raise Busy from error
            return await self._send(opening, statements)
        except BaseException:
            await self._reset()
            raise

    async def _greet(self) -> None:
        """Set up the database session outside a transaction, because a rollback would undo this."""
        process = self.connection.pgconn.backend_pid
        settings = self._wire.session_settings(process)
        unprepared = settings._replace(form=settings.form._replace(name=None))
        ((row,),) = await self._send((), (unprepared,))
        self._greeted = True
        self._wire.is_cluster = row[1]
        if row[0] != process:
            self._wire.assume_pooler()

    async def _send(self, opening: Message, statements: Message) -> Results:
        if opening:
            opening = self._opening(opening)
        try:
            places, results = await self._exchange((*opening, *statements))
            check(results)
        except errors.UniqueViolation as error:
            raise KeyConflict(error.diag.constraint_name or "") from error
        except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement) as error:
            raise PreparedStatementLost from error
        except (psycopg.Error, TimeoutError) as error:
            if (refusal := self._refusal(error)) is None:
                raise
            raise refusal from error
        own_places = places[len(opening) :]
        return [
            self._rows(result, statement) if (result := results[place]).ntuples else []
            for place, statement in zip(own_places, statements, strict=True)
        ]

    def _refusal(self, error: psycopg.Error | TimeoutError) -> Exception | None:
        known = REFUSALS.get(error.diag.sqlstate) if isinstance(error, psycopg.Error) else None
        if known is not None:
            self._wire.is_disk_full |= known is DiskFull
            return known()
        if not isinstance(error, _LOST):
            return None
        lost: Busy | Unavailable = Unavailable(BROKEN)
        reason = str(error) or "no answer"
        if isinstance(error, errors.ReadOnlySqlTransaction):
            reported = map(self.connection.pgconn.parameter_status, READ_ONLY_PARAMETERS)
            if all(value == b"off" for value in reported):
                return None
            reason, lost = "the server is a standby", Busy(STANDBY)
        log.warning("the connection to the database is given up: %s", reason)
        self.is_lost = True
        self.close()
        return lost

    async def _exchange(self, message: Message) -> tuple[list[int], list[PGresult]]:
        """Send statements, and wait for all results within a deadline."""
        pgconn = self.connection.pgconn
        timer = self._loop.call_later(self._wire.message_seconds, self._expire)
        try:
            pgconn.enter_pipeline_mode()
            places = self._post(message, preparing=not self._wire.pooled)
            pgconn.pipeline_sync()
            if pgconn.flush():
                self._stop_listening()
                async with asyncio.timeout(self._wire.message_seconds):
                    await wait_async(_flush(pgconn), pgconn.socket, interval=1)
            try:
                results = await self._collect()
            except asyncio.CancelledError:
                await self._cancel()
                raise
            pgconn.exit_pipeline_mode()
        finally:
            timer.cancel()
        return places, results

    def _opening(self, opening: Message) -> Message:
        if self._wire.pooled:
            begin, *rest = opening
            return (begin, self._wire.session_settings(NO_BACKEND_PID), *rest)
        self._messages += 1
        if self._messages < self._replan_at:
            return opening
        # Otherwise, PostgreSQL would keep a query plan that it made while a table was nearly empty.
        self._replan_at = min(4 * self._messages, self._messages + REPLAN_EVERY)
        return (*opening, _DISCARD_PLANS)

    def _post(self, message: Message, *, preparing: bool) -> list[int]:
        pgconn, prepared, org = self.connection.pgconn, self._prepared, self.org
        self._prepared_before = len(prepared)
        places, sent = [], 0
        for statement in message:
            (name, text, _, takes_org, _, _), parameters = (
                raw_statement(statement) if isinstance(statement, str) else statement
            )
            if takes_org:
                parameters = [*parameters, org]
            if name is None or not preparing:
                pgconn.send_query_params(text, parameters, result_format=Format.BINARY)
            else:
                if name not in prepared:
                    pgconn.send_prepare(name, text)
                    prepared.add(name)
                    sent += 1
                pgconn.send_query_prepared(name, parameters, result_format=Format.BINARY)
            places.append(sent)
            sent += 1
        return places

    def _rows(self, result: PGresult, statement: Statement | str) -> list[tuple[Any, ...]]:
        self._transformer.set_pgresult(result)
        make_row = None if isinstance(statement, str) else statement.form.make_row
        if make_row is None:
            make_row = named_row(tuple([result.fname(n) for n in range(result.nfields)]))
        return self._transformer.load_rows(0, result.ntuples, make_row)

    async def _cancel(self) -> None:
        self._stop_listening()
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self.connection.cancel_safe(timeout=_CANCEL_SECONDS)
                await self._collect()
            self.connection.pgconn.exit_pipeline_mode()
        except (psycopg.Error, TimeoutError):
            self.close()

    async def _collect(self) -> list[PGresult]:
        pgconn, results, ended = self.connection.pgconn, list[PGresult](), False
        while True:
            while pgconn.is_busy():
                self._listen()
                self._arrived = self._loop.create_future()
                try:
                    await self._arrived
                finally:
                    self._arrived = None
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:  # libpq returns None after the last result of each statement.
                if ended:
                    raise psycopg.OperationalError("the connection was lost")
                ended = True
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return results
            else:
                results.append(result)
                ended = False

    def _listen(self) -> None:
        """Register the socket before every wait, because uvloop may have removed it."""
        if self._heard is None:
            self._heard = self.connection.pgconn.socket
        try:
            self._loop.add_reader(self._heard, self._arrive)
        except RuntimeError:
            self._loop.remove_reader(self._heard)
            self._loop.add_reader(self._heard, self._arrive)

    def _arrive(self) -> None:
        if self._arrived is None:
            self._hear_unasked()
        elif not self._arrived.done():
            self._arrived.set_result(None)

    def _expire(self) -> None:
        seconds = self._wire.message_seconds
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_exception(TimeoutError(f"no answer within {seconds:g} seconds"))

    def give_up(self) -> None:
        """Abandon the connection after another server has become the primary.

        If a call waits for an answer, it gets an error.
        """
        if self._arrived is None:
            self.close()
        elif not self._arrived.done():
            self._arrived.set_exception(psycopg.OperationalError("the primary has changed"))

    def _hear_unasked(self) -> None:
        try:
            self.connection.pgconn.consume_input()
        except psycopg.OperationalError:
            self.close()
        else:
            self._loop.call_soon(self._listen_on)

    def _listen_on(self) -> None:
        if self._heard is not None and not self.connection.closed:
            self._listen()

    def _stop_listening(self) -> None:
        """Unregister the socket, because psycopg is going to wait for it."""
        if self._heard is not None:
            self._loop.remove_reader(self._heard)
            self._heard = None

    def is_clean(self) -> bool:
        return self.connection.pgconn.transaction_status == TransactionStatus.IDLE

    async def clean(self) -> None:
        await self._end_transaction(_ROLLBACK)

    def close(self) -> None:
        self._stop_listening()
        self.connection.pgconn.finish()

    async def _reset(self) -> None:
        statements = [_ROLLBACK]
        if len(self._prepared) > self._prepared_before:
            self._prepared = set()
            statements.append(_DEALLOCATE_ALL)
        await self._end_transaction(*statements)

    async def _end_transaction(self, *statements: str) -> None:
        if self.connection.pgconn.transaction_status not in _ENDABLE:
            self.close()
            return
        try:
            _, results = await self._exchange(statements)
            check(results)
        except (psycopg.Error, TimeoutError):
            self.close()
        except BaseException:
            self.close()
            raise
