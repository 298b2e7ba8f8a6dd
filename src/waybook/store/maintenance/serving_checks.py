"""Database checks at the start of a server, with the server's own database role."""

from typing import NamedTuple

import psycopg
from psycopg import sql

from waybook.errors import Misconfigured
from waybook.store.driver.queries import Query, load
from waybook.store.maintenance.migrate import (
    Migration,
    bundled_migrations,
    check_same,
    owner_connection,
)


class AppliedMigration(NamedTuple):
    """A migration that was applied to the database, perhaps by a newer program."""

    number: int
    digest: str
    oldest_compatible: int


SQL = load("maintenance/serving_checks", applied=AppliedMigration)


def check_serving_role(dsn: str, role: str) -> None:
    """Switch to the server's database role once, so that a failure is reported at startup."""
    with owner_connection(dsn) as connection:
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
                exempt = connection.execute(SQL["is_exempt"].text.encode()).fetchone()
        except psycopg.errors.InsufficientPrivilege:
            user = connection.execute(SQL["name_of_user"].text.encode()).fetchone()
            named = str(user and user[0])
            raise Misconfigured(
                f"the user {named} of the database URL is not a member of {role}, the role that "
                f"serves; as an administrator run: grant {role} to {named}"
            ) from None
        if exempt and exempt[0]:
            raise Misconfigured(
                f"the role {role}, which serves, bypasses row-level security, so orgs would see "
                f"each other's rows; as an administrator run: alter role {role} nosuperuser "
                "nobypassrls"
            )


def check_schema(dsn: str, role: str) -> None:
    """Check that this program can use the schema of the database.

    Raises:
        Misconfigured: migrations are missing, the schema is too new, a file was edited, or the user
            is not a member of the role.
        Unavailable: the database cannot be reached as this user.
    """
    with owner_connection(dsn) as connection:
        # Report missing migrations first, because the first migration creates the role.
        if not _holds(connection, SQL["is_migrated"]):
            judge_schema([], bundled_migrations())
    check_serving_role(dsn, role)
    with owner_connection(dsn) as connection, connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        rows = connection.execute(SQL["applied"].text.encode()).fetchall()
        judge_schema([AppliedMigration(*row) for row in rows], bundled_migrations())


def judge_schema(applied: list[AppliedMigration], bundled: list[Migration]) -> None:
    known = {migration.number: migration for migration in bundled}
    check_same(((migration.number, migration.digest) for migration in applied), known)
    done = {migration.number for migration in applied}
    pending = [migration.title for number, migration in sorted(known.items()) if number not in done]
    if pending:
        raise Misconfigured(
            f"the database lacks {len(pending)} migrations, the first of which is {pending[0]}; "
            "run waybook migrate as the owner of the database, or start with --migrate"
        )
    newest, required = max(known), max(migration.oldest_compatible for migration in applied)
    if required > newest:
        raise Misconfigured(
            "the database was migrated by a newer Waybook, whose schema needs a program that "
            f"knows migration {required}; this program knows up to {newest}: upgrade this program"
        )


def _holds(connection: psycopg.Connection, query: Query) -> bool:
    row = connection.execute(query.text.encode()).fetchone()
    return bool(row and row[0])
