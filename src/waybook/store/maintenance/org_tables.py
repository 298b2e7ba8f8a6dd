"""Catalog of the tables that hold rows of orgs, and the owner's access to one org at a time.

Row-level security is forced, so the owner too sees the rows of only one org.
"""

from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from waybook.store.driver.queries import Query, load

SQL = load("maintenance/org_tables")


class OrgTable(NamedTuple):
    """Table with its stored columns in order, and its estimated number of rows."""

    name: str
    columns: tuple[str, ...]
    has_extension_type: bool
    estimated_rows: int


def org_tables(connection: psycopg.Connection) -> list[OrgTable]:
    """Return every table with an `org_id`, referenced tables before those that reference them."""
    tables = connection.execute(SQL["tables"].text.encode()).fetchall()
    return [OrgTable(name, tuple(columns), ext, rows) for name, columns, ext, rows in tables]


def all_orgs(connection: psycopg.Connection) -> list[UUID]:
    """Return the ids of all orgs, erased ones included, in a transaction."""
    _show_directory(connection, visible=True)
    rows = connection.execute(SQL["orgs"].text.encode()).fetchall()
    # Its policy shows rows of all orgs, so it must be off before one org's rows are read.
    _show_directory(connection, visible=False)
    return [org_id for (org_id,) in rows]


def enter_org(connection: psycopg.Connection, org_id: UUID) -> None:
    """Make this the current org until the end of the transaction, hiding all others' rows."""
    connection.execute(SQL["enter_org"].text.encode(), {"org_id": str(org_id)})


def fix_text_format(connection: psycopg.Connection) -> None:
    """Make the transaction use a text format of values that is the same on every server."""
    connection.execute(SQL["same_text"].text.encode())


def filled_in(query: Query, table: str, columns: tuple[str, ...] = ()) -> sql.Composed:
    """Return a query's text with quoted names in its braces."""
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(query.text).format(table=sql.Identifier(table), columns=listed)


def _show_directory(connection: psycopg.Connection, *, visible: bool) -> None:
    shown = {"visible": "on" if visible else ""}
    connection.execute(SQL["see_directory"].text.encode(), shown)
