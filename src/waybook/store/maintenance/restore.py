"""Restores a backup into an empty database, as the database owner, in one transaction."""

from typing import Any
from uuid import UUID

import psycopg

from waybook.accounts.model import LOCAL_ORG
from waybook.errors import Busy, InvalidInput, Refused
from waybook.store.driver.queries import Query, load
from waybook.store.maintenance.anchors import totals_of
from waybook.store.maintenance.archive import (
    Archive,
    Manifest,
    Member,
    Progress,
    count_rows,
    damaged,
)
from waybook.store.maintenance.backup import (
    all_orgs,
    chain_ends,
    enter_org,
    filled_in,
    fix_text_format,
    org_tables,
)
from waybook.store.maintenance.migrate import (
    applied_migrations,
    bundled_migrations,
    migrate,
    owner_connection,
)

SQL = load("maintenance/restore")


def restore(owner_dsn: str, archive: Archive, progress: Progress, *, vectors: bool = True) -> None:
    """Load a backup archive into an empty database, and apply the latest migrations.

    Raises:
        InvalidInput: the archive is damaged, or was made by a newer program.
        Refused: the database is not empty.
        Misconfigured: the role is not the owner.
        Busy: another process is writing to the database.
        Unavailable: the database cannot be reached.
    """
    manifest = archive.manifest
    latest = check_migrations(manifest.migrations)
    archive.verify(lambda *_: progress(0, manifest.rows, 0))
    with owner_connection(owner_dsn) as connection:
        applied = applied_migrations(connection)
        if applied and max(applied) > latest:
            raise Refused(
                f"this database has migration {max(applied)}, but the backup only {latest}: "
                "restore into a new database or data directory that no Waybook has opened yet; it "
                "is migrated after the restore"
            )
    migrate(owner_dsn, vectors=False, up_to=latest)
    with owner_connection(owner_dsn) as connection:
        try:
            with connection.transaction():
                fix_text_format(connection)
                _Restore(connection, archive, progress).load()
        except psycopg.errors.LockNotAvailable as error:
            raise Busy(
                "another process is using this database: stop it, then restore again"
            ) from error
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise damaged(f"the database refused a row: {error.diag.message_primary}") from error
    migrate(owner_dsn, vectors=vectors)
    with owner_connection(owner_dsn) as connection:
        for table in manifest.tables:
            connection.execute(filled_in(SQL["analyze"], table))


def check_migrations(applied: tuple[tuple[int, str, str], ...]) -> int:
    """Return the number of the backup's last migration.

    Raises:
        InvalidInput: this program lacks one of the migrations, or has a different one with the same
            number.
    """
    ours = {migration.number: migration for migration in bundled_migrations()}
    for number, name, digest in applied:
        known = ours.get(number)
        if number < min(ours):
            raise InvalidInput(
                "this backup was made by an earlier build of Waybook, which this version cannot "
                "read; restore it with the program that made it"
            )
        if known is None:
            raise InvalidInput(
                f"this backup was made by a newer Waybook (its database has migration "
                f"{number:04}_{name}, this program knows up to {max(ours)}); upgrade this program, "
                "then restore"
            )
        if known.digest != digest:
            raise InvalidInput(
                f"migration {known.title} of this backup differs from the one in this program; "
                "restore with the program that made the backup"
            )
    return max((number for number, *_ in applied), default=0)


class _Restore:
    def __init__(
        self, connection: psycopg.Connection, archive: Archive, progress: Progress
    ) -> None:
        self._connection = connection
        self._archive = archive
        self._manifest: Manifest = archive.manifest
        self._progress = progress
        self._rows = self._bytes = 0

    def load(self) -> None:
        tables = {table.name: table.columns for table in org_tables(self._connection)}
        for name in tables:
            self._run(SQL["lock_table"], name)
        for name, columns in self._manifest.tables.items():
            if not {*columns} <= {*tables.get(name, ())}:
                raise InvalidInput(f"this database has no table {name} with the backup's columns")
        self._check_empty([*tables])
        for table in self._manifest.tables:
            self._run(SQL["make_incoming"], table)
        for member in self._manifest.members:
            self._load(member)
        orgs = all_orgs(self._connection)
        if totals_of(chain_ends(self._connection, orgs)) != self._manifest.anchor:
            raise damaged("the audit chains do not end as at the time of the backup")

    def _check_empty(self, tables: list[str]) -> None:
        row_counts = []
        for org_id in all_orgs(self._connection):
            enter_org(self._connection, org_id)
            for table in tables:
                ((count,),) = self._run(SQL["count_rows"], table)
                if count and (table, org_id) != ("org", LOCAL_ORG):
                    row_counts.append(f"{count} in {table}")
        if row_counts:
            raise Refused(
                f"this database is not empty (rows: {', '.join(row_counts[:5])}); nothing was "
                "restored: name a new database with --database-url, or a new --data-dir"
            )

    def _load(self, member: Member) -> None:
        enter_org(self._connection, UUID(member.org_id))
        copied = filled_in(SQL["copy_rows"], member.table, self._manifest.tables[member.table])
        with self._connection.cursor() as cursor, cursor.copy(copied) as copy:
            for block in self._archive.blocks(member):
                copy.write(block)
                self._rows += count_rows(block)
                self._bytes += len(block)
                self._progress(self._rows, self._manifest.rows, self._bytes)
        ((has_foreign_rows,),) = self._run(SQL["has_foreign_rows"], member.table)
        if has_foreign_rows:
            raise damaged(f"{member.name} has a row of another org")
        if member.table == "org":
            self._connection.execute(SQL["remove_org_row"].text.encode())
        try:
            inserted = self._run(SQL["insert_rows"], member.table).rowcount
        except psycopg.errors.InsufficientPrivilege as error:
            raise damaged(f"{member.name} has a row of another org") from error
        if inserted != member.rows:
            raise damaged(f"{member.name} has {inserted} rows, but the manifest says {member.rows}")
        self._run(SQL["empty_incoming"], member.table)

    def _run(self, query: Query, table: str) -> psycopg.Cursor[tuple[Any, ...]]:
        columns = self._manifest.tables.get(table, ())
        return self._connection.execute(filled_in(query, table, columns))
