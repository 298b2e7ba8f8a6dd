"""Settings for database connections, and errors of SQL statements."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from psycopg import errors
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from waybook.errors import Busy, DiskFull, StaleCredential
from waybook.store.driver.queries import Statement, load

log = logging.getLogger(__name__)

SQL = load("driver/wire")

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
