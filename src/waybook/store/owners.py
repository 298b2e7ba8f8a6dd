"""The owner at work on one org: a transaction in which only that org exists, even for the owner.

Row-level security is forced, so what is erased here cannot be another org's.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql

from waybook.errors import Busy
from waybook.store.migrate import connected
from waybook.store.sql import Query

Rows: TypeAlias = list[tuple[Any, ...]]

#: How long to wait for whoever is at work.
LOCK_TIMEOUT = "30s"


class Owner:
    """One transaction of the owner."""

    def __init__(self, connection: psycopg.Connection) -> None:
        """Use this connection, in the transaction it is in."""
        self._connection = connection

    def ask(self, query: Query, table: str = "", column: str = "", **values: object) -> Rows:
        """Run a query, for a table and a column where it has places for them; returns its rows."""
        cursor = self._run(query, table, column, values)
        return cursor.fetchall() if cursor.description else []

    def do(self, query: Query, table: str = "", column: str = "", **values: object) -> int:
        """Run a query; returns how many rows it touched."""
        return self._run(query, table, column, values).rowcount

    def do_each(self, query: Query, every: list[Mapping[str, object]]) -> None:
        """Run a query for each of these values, many in one message."""
        if every:
            with self._connection.cursor() as cursor:
                cursor.executemany(query.text.encode(), every)

    def _run(
        self, query: Query, table: str, column: str, values: Mapping[str, object]
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
        # The text is a file's; only names from the catalogue come in, and the driver quotes them.
        text = sql.SQL(query.text).format(**names)
        return self._connection.execute(text, values)


@contextmanager
def owning(dsn: str, org_id: UUID) -> Iterator[Owner]:
    """A transaction of the owner in which only this org exists; it is committed at the end.

    Raises:
        Busy: somebody is at work there, and does not come to an end.
    """
    with _transaction(dsn) as connection:
        connection.execute(f"set local app.org_id = '{org_id}'".encode())
        yield Owner(connection)


@contextmanager
def sweeping(dsn: str) -> Iterator[Owner]:
    """A transaction of the owner that sees who there is, and nothing of theirs."""
    with _transaction(dsn) as connection:
        connection.execute(b"set local app.sweep = 'on'")
        yield Owner(connection)


@contextmanager
def _transaction(dsn: str) -> Iterator[psycopg.Connection]:
    with connected(dsn) as connection:
        try:
            with connection.transaction():
                connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'".encode())
                yield connection
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as fault:
            raise Busy("somebody is at work on this org; nothing was erased, try again") from fault
