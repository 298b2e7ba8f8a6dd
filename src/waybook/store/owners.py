"""The owner at work on one org: a transaction in which only that org exists, even for the owner.

Row-level security is forced, so what is erased here cannot be another org's.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql

from waybook.errors import Busy, Misconfigured
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

    def make(self, query: Query, table: str, **literals: str) -> None:
        """Run statements that make something, with these values in their texts."""
        told = {name: sql.Literal(value) for name, value in literals.items()}
        text = sql.SQL(query.text).format(table=sql.Identifier(table), **told)
        self._connection.execute(text)

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


class Office:
    """Where the owner works: one connection, a transaction for each thing that is done."""

    def __init__(self, connection: psycopg.Connection) -> None:
        """Use this connection, which nobody else uses."""
        self._connection = connection

    @contextmanager
    def org(self, org_id: UUID) -> Iterator[Owner]:
        """A transaction in which only this org exists; it is committed at the end.

        Raises:
            Busy: somebody is at work there, and does not come to an end.
            Misconfigured: this is not the owner.
        """
        with self._transaction(LOCK_TIMEOUT) as owner:
            self._connection.execute(f"set local app.org_id = '{org_id}'".encode())
            yield owner

    @contextmanager
    def everybody(self, lock_timeout: str | None = None) -> Iterator[Owner]:
        """A transaction that sees who there is, and nothing of theirs."""
        with self._transaction(lock_timeout or LOCK_TIMEOUT) as owner:
            self._connection.execute(b"set local app.sweep = 'on'")
            yield owner

    @contextmanager
    def _transaction(self, lock_timeout: str) -> Iterator[Owner]:
        try:
            with self._connection.transaction():
                self._connection.execute(f"set local lock_timeout = '{lock_timeout}'".encode())
                yield Owner(self._connection)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as fault:
            raise Busy("somebody is at work there; nothing was erased, try again") from fault
        except psycopg.errors.InsufficientPrivilege as fault:
            raise Misconfigured(
                "only the owner of the database may do this; owner_url names the owner"
            ) from fault


@contextmanager
def office(dsn: str) -> Iterator[Office]:
    """The owner at work.

    Raises:
        Unavailable: the database cannot be reached.
    """
    with connected(dsn) as connection:
        yield Office(connection)


@contextmanager
def owning(dsn: str, org_id: UUID) -> Iterator[Owner]:
    """One transaction of the owner in which only this org exists."""
    with office(dsn) as here, here.org(org_id) as owner:
        yield owner
