"""Backs up all orgs from one snapshot, as the database owner, during normal operation."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import IO, Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from waybook.errors import Busy, Misconfigured
from waybook.store.driver.queries import Query, Row, first_column, load
from waybook.store.maintenance.anchors import Anchor, ends_in, write_anchors
from waybook.store.maintenance.archive import (
    ANCHORS,
    ArchiveWriter,
    Manifest,
    Member,
    Progress,
    blocks_of,
    count_rows,
)
from waybook.store.maintenance.migrate import applied_migrations, owner_connection, pending_in

SQL = load("maintenance/backup")

_REBUILT = "the server rebuilds it from the rest"
#: Tables that a backup omits, each with the reason why another database does not need its rows.
LEFT_OUT = {
    "web_session": "people sign in again",
    # These rows contain transaction ids, which have no meaning on another server.
    "passage_embedding": _REBUILT,
    "passage_deletion": _REBUILT,
    "passage_quarantine": _REBUILT,
}


def back_up(owner_dsn: str, file: IO[bytes], progress: Progress) -> Manifest:
    """Write a backup archive of the whole database to a file.

    Raises:
        Misconfigured: the role is not the owner, or this program cannot back up the database's
            schema version.
        Busy: a table is being altered right now.
        Unavailable: the database cannot be reached.
    """
    with owner_connection(owner_dsn) as connection:
        if not applied_migrations(connection):
            raise Misconfigured("the database has no tables of Waybook: run waybook migrate first")
        pending_in(connection)
        tables = org_tables(connection)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        try:
            with closing(ArchiveWriter(file)) as writer, connection.transaction():
                fix_text_format(connection)
                connection.execute(SQL["one_snapshot_per_node"].text.encode())
                # Lock all tables before the first query, so that the backup has them as of the same
                # time.
                for table in tables:
                    connection.execute(filled_in(SQL["lock_table"], table.name))
                return _Backup(connection, writer, progress, tables).write()
        except psycopg.errors.LockNotAvailable as error:
            raise Busy("a table is being altered; nothing was backed up, try again") from error


class _Backup:
    def __init__(
        self,
        connection: psycopg.Connection,
        writer: ArchiveWriter,
        progress: Progress,
        tables: list[Row],
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._progress = progress
        self._all = tables
        self._tables = [t for t in tables if t.name not in LEFT_OUT and not t.has_extension_type]
        self._estimate = sum(table.estimated_rows for table in self._tables)
        self._rows = self._bytes = 0

    def write(self) -> Manifest:
        orgs = all_orgs(self._connection)
        ((database, version, at),) = self._connection.execute(SQL["about"].text.encode())
        now = [(table.name, table.columns) for table in org_tables(self._connection)]
        if now != [(table.name, table.columns) for table in self._all]:
            raise Busy("the schema was changed just now; nothing was backed up, try again")
        members = list[Member]()
        for org_id in orgs:
            enter_org(self._connection, org_id)
            for table in self._tables:
                if member := self._writer.add(str(org_id), table.name, self._copied(table)):
                    members.append(member)
        with self._writer.open(ANCHORS) as target:
            anchor = write_anchors(target, at, chain_ends(self._connection, orgs))
        applied: list[Any] = self._connection.execute(SQL["migrations"].text.encode()).fetchall()
        manifest = Manifest(
            at=at.isoformat(),
            database=database,
            server_version=version,
            migrations=tuple(applied),
            tables={table.name: table.columns for table in self._tables},
            left_out={
                table.name: LEFT_OUT.get(table.name, _REBUILT)
                for table in self._all
                if table not in self._tables
            },
            members=tuple(members),
            anchor=anchor,
        )
        self._writer.finish(manifest)
        return manifest

    def _copied(self, table: Row) -> Iterator[bytes]:
        query = filled_in(SQL["copy_rows"], table.name, table.columns)
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            for block in blocks_of(copy):
                self._rows += count_rows(block)
                self._bytes += len(block)
                self._progress(self._rows, max(self._estimate, self._rows), self._bytes)
                yield block


def org_tables(connection: psycopg.Connection) -> list[Row]:
    """Return every table with an `org_id` column. A table comes after the tables it references."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(SQL["tables"].text.encode()).fetchall()


def all_orgs(connection: psycopg.Connection) -> list[UUID]:
    """Return the ids of all orgs, including erased ones. The caller must open a transaction."""
    _set(connection, SQL["see_directory"], "on")
    orgs: list[UUID] = first_column(connection.execute(SQL["orgs"].text.encode()))
    # Hide the rows of the table `org` again, because the transaction continues.
    _set(connection, SQL["see_directory"], "")
    return orgs


def chain_ends(connection: psycopg.Connection, orgs: list[UUID]) -> Iterator[Anchor]:
    for org_id in orgs:
        enter_org(connection, org_id)
        yield from ends_in(connection)


def enter_org(connection: psycopg.Connection, org_id: UUID) -> None:
    _set(connection, SQL["enter_org"], str(org_id))


def fix_text_format(connection: psycopg.Connection) -> None:
    """Set the text format of values for this transaction, so that all servers write the same."""
    connection.execute(SQL["same_text"].text.encode())


def filled_in(query: Query, table: str, columns: Iterable[str] = ()) -> sql.Composed:
    return sql.SQL(query.text).format(
        table=sql.Identifier(table),
        incoming=sql.Identifier(f"incoming_{table}"),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
    )


def _set(connection: psycopg.Connection, query: Query, value: str) -> None:
    connection.execute(sql.SQL(query.text).format(value=sql.Literal(value)))
