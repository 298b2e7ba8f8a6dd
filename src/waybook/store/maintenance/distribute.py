"""`waybook migrate --distribute`: puts all rows of an org on the same node of a Citus cluster."""

import psycopg
from psycopg import sql

from waybook.errors import Misconfigured
from waybook.store.driver.queries import load
from waybook.store.maintenance.cluster_tables import (
    distribute_others,
    has_citus,
    let_maintenance_role_log_in,
)
from waybook.store.maintenance.migrate import owner_connection

SQL = load("maintenance/distribute")


def distribute(dsn: str) -> list[str]:
    with owner_connection(dsn) as connection:
        if not has_citus(connection):
            raise Misconfigured(
                "the database has no extension citus, so its tables cannot be distributed; run "
                "create extension citus on the coordinator, or waybook migrate without --distribute"
            )
        with connection.transaction():
            names = distribute_others(connection)
            if names:
                connection.execute(SQL["let_serving_role_log_in"].text.encode())
        let_settings_pass(connection)
        let_maintenance_role_log_in(connection)
        return names


def let_settings_pass(connection: psycopg.Connection) -> None:
    """Make every new session pass the current org on to the nodes of the cluster."""
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL(SQL["pass_settings_on"].text).format(database=database))
