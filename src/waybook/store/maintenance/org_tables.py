"""Finds the tables that contain rows of orgs, and lets the owner access one org at a time."""

from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from waybook.store.driver.queries import Query, first_column, load


class OrgTable(NamedTuple):
    name: str
    columns: tuple[str, ...]
    has_extension_type: bool
    estimated_rows: int


SQL = load("maintenance/org_tables", tables=OrgTable)


def org_tables(connection: psycopg.Connection) -> list[OrgTable]:
    """Return every table with an `org_id` column. A table comes after the tables it references."""
    tables = map(OrgTable._make, connection.execute(SQL["tables"].text.encode()))
    return [table._replace(columns=tuple(table.columns)) for table in tables]


def all_orgs(connection: psycopg.Connection) -> list[UUID]:
    """Return the ids of all orgs, including erased ones. This needs a transaction."""
    _show_directory(connection, visible=True)
    orgs: list[UUID] = first_column(connection.execute(SQL["orgs"].text.encode()))
    # While this setting is on, all rows of the table `org` are visible.
    _show_directory(connection, visible=False)
    return orgs


def enter_org(connection: psycopg.Connection, org_id: UUID) -> None:
    _set(connection, SQL["enter_org"], str(org_id))


def fix_text_format(connection: psycopg.Connection) -> None:
    """Fix the text format of values in this transaction, so that it is the same on all servers."""
    connection.execute(SQL["same_text"].text.encode())


def filled_in(query: Query, table: str, columns: tuple[str, ...] = ()) -> sql.Composed:
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(query.text).format(table=sql.Identifier(table), columns=listed)


def _show_directory(connection: psycopg.Connection, *, visible: bool) -> None:
    _set(connection, SQL["see_directory"], "on" if visible else "")


def _set(connection: psycopg.Connection, query: Query, value: str) -> None:
    connection.execute(sql.SQL(query.text).format(value=sql.Literal(value)))
