"""Distributes the database tables over a Citus cluster, and migrates distributed tables."""

from contextlib import suppress

import psycopg
from psycopg import sql

from waybook.errors import Misconfigured
from waybook.store.driver.queries import Query, first_column, first_value, load

SQL = load("maintenance/citus")

DIRECTORY = "org"
_REFUSALS = (psycopg.errors.FeatureNotSupported, psycopg.errors.InternalError_)


def is_distributed(connection: psycopg.Connection) -> bool:
    return _has_citus(connection) and bool(_distributed_tables(connection))


def _has_citus(connection: psycopg.Connection) -> bool:
    return bool(first_value(_fetch(connection, SQL["has_citus"])))


def lacks_maintenance_login(connection: psycopg.Connection) -> bool:
    return bool(_fetch(connection, SQL["maintenance_role_without_login"]))


def let_maintenance_role_log_in(connection: psycopg.Connection) -> None:
    if is_distributed(connection) and lacks_maintenance_login(connection):
        with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(SQL["let_maintenance_role_log_in"].text.encode())


def distribute(connection: psycopg.Connection) -> list[str]:
    """Distribute the tables, with all rows of an org on one node, and return their names."""
    if not _has_citus(connection):
        raise Misconfigured(
            "the database has no extension citus, so its tables cannot be distributed; run "
            "create extension citus on the coordinator, or waybook migrate without --distribute"
        )
    with connection.transaction():
        names = _distribute_others(connection)
        if names:
            connection.execute(SQL["let_serving_role_log_in"].text.encode())
    let_settings_pass(connection)
    let_maintenance_role_log_in(connection)
    return names


def let_settings_pass(connection: psycopg.Connection) -> None:
    """Make every new session pass the current org on to the nodes of the cluster."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL(SQL["pass_settings_on"].text).format(database=database))


def apply(connection: psycopg.Connection, title: str, statements: list[str]) -> None:
    """Execute the statements of a migration. Distribute each new table before the next statement.

    Raises:
        Misconfigured: Citus refuses a statement.
    """
    allow_foreign_keys(connection)
    try:
        for statement in statements:
            connection.execute(statement.encode())
            _distribute_others(connection)
    except _REFUSALS as error:
        reason = str(error).splitlines()[0]
        raise Misconfigured(
            f"migration {title} cannot run on a distributed database ({reason}), and nothing of it "
            "was done; back up with the previous version, restore the backup into a new database "
            "that is not distributed, and run waybook migrate --distribute there"
        ) from error


def allow_foreign_keys(connection: psycopg.Connection) -> None:
    connection.execute(SQL["one_node_at_a_time"].text.encode())
    connection.execute(SQL["leave_new_tables_local"].text.encode())


def _distribute_others(connection: psycopg.Connection) -> list[str]:
    """Distribute all tables that are not distributed yet, and return their names.

    The caller must have locked these tables.
    """
    done = {*_distributed_tables(connection)}
    tables = first_column(_fetch(connection, SQL["tables_to_distribute"]))
    names = [name for name in tables if name not in done]
    if names:
        allow_foreign_keys(connection)
        _distribute(connection, names, done)
    return names


def _distribute(connection: psycopg.Connection, names: list[str], done: set[str]) -> None:
    keys = _fetch(connection, SQL["foreign_keys"])
    moved = [key for key in keys if key[0] not in done]
    for key in moved:
        connection.execute(_key_text(SQL["drop_key"], key))
    of_table, of_directory = SQL["distribute_table"], SQL["distribute_directory"]
    for name in names:
        query = of_directory if name == DIRECTORY else of_table
        text = sql.SQL(SQL["partitions"].text).format(table=sql.Literal(name))
        filled = [name, *first_column(connection.execute(text).fetchall())]
        for table in filled:
            connection.execute(_table_text(SQL["exempt_owner"], table))
        connection.execute(sql.SQL(query.text).format(table=sql.Literal(name)))
        for table in filled:
            connection.execute(_table_text(SQL["confine_owner"], table))
    for key in moved:
        connection.execute(_key_text(SQL["add_key"], key))


def _distributed_tables(connection: psycopg.Connection) -> list[str]:
    return first_column(_fetch(connection, SQL["distributed_tables"]))


def _fetch(connection: psycopg.Connection, query: Query) -> list[tuple[str, ...]]:
    return connection.execute(query.text.encode()).fetchall()


def _table_text(query: Query, table: str) -> sql.Composed:
    return sql.SQL(query.text).format(table=sql.Identifier(table))


def _key_text(query: Query, key: tuple[str, ...]) -> sql.Composed:
    table, name, definition = key
    # The definition was read from the database catalog, so inserting it is safe.
    return sql.SQL(query.text).format(
        table=sql.Identifier(table), name=sql.Identifier(name), definition=sql.SQL(definition)
    )
