"""Catalog of the tables that hold rows of orgs, and the owner's access to one org at a time.

Row-level security is forced, so the owner too sees the rows of only one org.
"""

from typing import NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from waybook.store.driver.queries import Query, first_column, load


class OrgTable(NamedTuple):
    """Table with its stored columns in order, and its estimated number of rows."""

    name: str
    columns: tuple[str, ...]
    has_extension_type: bool
    estimated_rows: int


SQL = load("maintenance/org_tables", tables=OrgTable)


def org_tables(connection: psycopg.Connection) -> list[OrgTable]:
    """Return every table with an `org_id`, referenced tables before those that reference them."""
    tables = map(OrgTable._make, connection.execute(SQL["tables"].text.encode()))
    return [table._replace(columns=tuple(table.columns)) for table in tables]


def all_orgs(connection: psycopg.Connection) -> list[UUID]:
    """Return the ids of all orgs, erased ones included, in a transaction."""
    _show_directory(connection, visible=True)
    orgs: list[UUID] = first_column(connection.execute(SQL["orgs"].text.encode()))
    # The directory setting makes rows of all orgs visible, so turn it off before the rows of one
    # org are read.
    _show_directory(connection, visible=False)
    return orgs


def enter_org(connection: psycopg.Connection, org_id: UUID) -> None:
    """Make this org the current one until the transaction ends; rows of other orgs are hidden."""
    connection.execute(SQL["enter_org"].text.encode(), {"org_id": str(org_id)})


def fix_text_format(connection: psycopg.Connection) -> None:
    """Make the transaction use a text format of values that is the same on every server."""
    connection.execute(SQL["same_text"].text.encode())


def filled_in(query: Query, table: str, columns: tuple[str, ...] = ()) -> sql.Composed:
    """Return a query's text with its placeholders replaced by quoted table and column names."""
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL(query.text).format(table=sql.Identifier(table), columns=listed)


def _show_directory(connection: psycopg.Connection, *, visible: bool) -> None:
    shown = {"visible": "on" if visible else ""}
    connection.execute(SQL["see_directory"].text.encode(), shown)
