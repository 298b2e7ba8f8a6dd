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
    return bool(first_value(_run(connection, SQL["has_citus"])))


def lacks_maintenance_login(connection: psycopg.Connection) -> bool:
    return bool(_run(connection, SQL["maintenance_role_without_login"]))


def let_maintenance_role_log_in(connection: psycopg.Connection) -> None:
    if is_distributed(connection) and lacks_maintenance_login(connection):
        with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
            _run(connection, SQL["let_maintenance_role_log_in"])


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
            _run(connection, SQL["let_serving_role_log_in"])
    let_settings_pass(connection)
    let_maintenance_role_log_in(connection)
    return names


def let_settings_pass(connection: psycopg.Connection) -> None:
    """Make every new database session pass the current org on to the nodes of the cluster."""
    _run(connection, SQL["pass_settings_on"], database=sql.Identifier(connection.info.dbname))


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
    _run(connection, SQL["one_node_at_a_time"])
    _run(connection, SQL["leave_new_tables_local"])


def _distribute_others(connection: psycopg.Connection) -> list[str]:
    """Distribute all tables that are not distributed yet, and return their names.

    The caller must have locked these tables.
    """
    done = {*_distributed_tables(connection)}
    tables = first_column(_run(connection, SQL["tables_to_distribute"]))
    names = [name for name in tables if name not in done]
    if not names:
        return []
    allow_foreign_keys(connection)
    keys = [
        # The definition was read from the database catalog, so inserting it is safe.
        {"table": sql.Identifier(table), "name": sql.Identifier(name), "definition": sql.SQL(text)}
        for table, name, text in _run(connection, SQL["foreign_keys"])
        if table not in done
    ]
    for key in keys:
        _run(connection, SQL["drop_key"], **key)
    for name in names:
        of_table, literal = name != DIRECTORY, sql.Literal(name)
        partitions = first_column(_run(connection, SQL["partitions"], table=literal))
        filled = [sql.Identifier(table) for table in (name, *partitions)]
        for table in filled:
            _run(connection, SQL["exempt_owner"], table=table)
        query = SQL["distribute_table"] if of_table else SQL["distribute_directory"]
        _run(connection, query, table=literal)
        for table in filled:
            _run(connection, SQL["confine_owner"], table=table)
    for key in keys:
        _run(connection, SQL["add_key"], **key)
    return names


def _distributed_tables(connection: psycopg.Connection) -> list[str]:
    return first_column(_run(connection, SQL["distributed_tables"]))


def _run(
    connection: psycopg.Connection, query: Query, **parts: sql.Composable
) -> list[tuple[str, ...]]:
    cursor = connection.execute(sql.SQL(query.text).format(**parts))
    return cursor.fetchall() if cursor.description else []
