"""Pool of idle database connections, reused by test environments with the same database.

Opening a connection takes PostgreSQL at least 20 ms of CPU time: it starts a process, loads the
catalogs, and plans every statement.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.pq import ExecStatus

from waybook.store.driver.connection import LOCK_TIMEOUT, DbConnection
from waybook.store.driver.pool import ConnectionPool, Org

#: Statements that reset all state of a database session except its prepared statements.
RESET = b"reset all; reset role; unlisten *; select pg_advisory_unlock_all()"
#: Maximum number of idle connections to each database.
MAX_IDLE = 4
#: Idle connections, by the DSN of their database.
_IDLE: dict[str, list[DbConnection]] = {}


@contextmanager
def keep_connections(dsn: str) -> Iterator[None]:
    """Keep the idle connections to this DSN for later pools, until the `with` block ends."""
    _IDLE[dsn] = []
    try:
        yield
    finally:
        for line in _IDLE.pop(dsn):
            line.close()


class ReusingPool(ConnectionPool):
    """Connection pool that reuses idle connections, and opens one only if none is left."""

    def __init__(self, dsn: str, *, size: int, lock_timeout: str = LOCK_TIMEOUT) -> None:
        """Create a pool that reuses the connections which `keep_connections` keeps."""
        super().__init__(dsn, size=size, lock_timeout=lock_timeout)
        self._idle = _IDLE.get(dsn)

    async def _open(self, org: Org, deadline: float) -> DbConnection | None:
        while self._idle:
            line = self._idle.pop()
            if is_open(line):
                self._places += 1
                return self._wrap(line)
            line.close()
        return await super()._open(org, deadline)

    def _wrap(self, line: DbConnection) -> DbConnection:
        """Give an idle connection the event loop and the settings of this pool.

        The prepared statements of the connection remain.
        """
        wrapped = DbConnection(line.connection, self.wire)
        wrapped._prepared = line._prepared
        wrapped._messages, wrapped._replan_at = line._messages, line._replan_at
        return wrapped

    def close(self) -> None:
        """Keep up to `MAX_IDLE` idle connections for later pools, and close the others."""
        while self._idle is not None and self._free and len(self._idle) < MAX_IDLE:
            line = self._free.pop(0)
            line._stop_listening()
            if line.connection.pgconn.exec_(RESET).status == ExecStatus.TUPLES_OK:
                self._idle.append(line)
            else:
                line.close()
        super().close()


def is_open(line: DbConnection) -> bool:
    """Return whether the server has kept the connection open, and no transaction is in progress."""
    try:
        line.connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return line.is_clean()
