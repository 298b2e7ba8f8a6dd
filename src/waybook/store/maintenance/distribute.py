"""Distribution of the tables over the nodes of a Citus cluster: all rows of an org on one node.

The table `org` is copied to every node. Citus distributes no table that a local table references,
so the foreign keys are dropped, and created again when all tables are distributed. Existing rows
are copied as the owner, who for this time is not subject to the policies of the tables. All of this
is one transaction, which locks the tables.
"""

from typing import NamedTuple

import psycopg
from psycopg import sql

from waybook.errors import Misconfigured
from waybook.store.driver.queries import Query, first_column, first_value, load
from waybook.store.maintenance.migrate import owner_connection


class ForeignKey(NamedTuple):
    """Foreign key of a table."""

    table: str
    name: str
    definition: str


SQL = load("maintenance/distribute")

#: Table of the orgs, which every node has.
DIRECTORY = "org"


def distribute(dsn: str) -> list[str]:
    """Distribute the tables that are not distributed yet; return their names, in order.

    Raises:
        Misconfigured: the database has no extension `citus`.
        Unavailable: the database cannot be reached.
    """
    with owner_connection(dsn) as connection:
        if not first_value(_fetch(connection, SQL["has_citus"])):
            raise Misconfigured(
                "the database has no extension citus, so its tables cannot be distributed; run "
                "create extension citus on the coordinator, or waybook migrate without --distribute"
            )
        done = {*first_column(_fetch(connection, SQL["distributed_tables"]))}
        tables = first_column(_fetch(connection, SQL["tables_to_distribute"]))
        names = [name for name in tables if name not in done]
        if names:
            with connection.transaction():
                _distribute(connection, names, done)
        let_settings_pass(connection)
        return names


def let_settings_pass(connection: psycopg.Connection) -> None:
    """Let every new session of the database pass the org of a transaction on to the nodes."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL(SQL["pass_settings_on"].text).format(database=database))


def _distribute(connection: psycopg.Connection, names: list[str], done: set[str]) -> None:
    """Distribute these tables, without their foreign keys, and then create the foreign keys."""
    keys = [ForeignKey._make(row) for row in _fetch(connection, SQL["foreign_keys"])]
    moved = [key for key in keys if key.table not in done]
    connection.execute(SQL["one_node_at_a_time"].text.encode())
    for key in moved:
        connection.execute(_key_text(SQL["drop_key"], key))
    of_table, of_directory = SQL["distribute_table"], SQL["distribute_directory"]
    for name in names:
        query = of_directory if name == DIRECTORY else of_table
        connection.execute(_table_text(SQL["exempt_owner"], name))
        connection.execute(sql.SQL(query.text).format(table=sql.Literal(name)))
        connection.execute(_table_text(SQL["confine_owner"], name))
    for key in moved:
        connection.execute(_key_text(SQL["add_key"], key))
    connection.execute(SQL["let_serving_role_log_in"].text.encode())


def _fetch(connection: psycopg.Connection, query: Query) -> list[tuple[str, ...]]:
    return connection.execute(query.text.encode()).fetchall()


def _table_text(query: Query, table: str) -> sql.Composed:
    return sql.SQL(query.text).format(table=sql.Identifier(table))


def _key_text(query: Query, key: ForeignKey) -> sql.Composed:
    # The definition comes from the catalog of the database, which has it from a migration.
    return sql.SQL(query.text).format(
        table=sql.Identifier(key.table),
        name=sql.Identifier(key.name),
        definition=sql.SQL(key.definition),
    )
