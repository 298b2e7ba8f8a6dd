"""Helpers for SQL statements that tests run on their own connection to the database."""

import psycopg
from psycopg import sql

from waybook.store.driver.queries import Query, Statement


def prepared(connection: psycopg.Connection, statement: Statement) -> str:
    connection.execute(f"prepare asked as {statement}".encode())
    parameters = [None if value is None else value.decode() for value in statement.parameters]
    if statement.form.takes_org:
        row = connection.execute("select current_setting('app.org_id')").fetchone()
        parameters += row or ()
    values = sql.SQL(", ").join(map(sql.Literal, parameters)).as_string(connection)
    return f"execute asked({values})" if parameters else "execute asked"


def lock_rows(table: str, row_id: str | None = None) -> Statement:
    """Return a statement that locks one row of a table, or all rows of the org in it."""
    condition = "" if row_id is None else f" and id = '{row_id}'"
    return Query(
        "lock_rows", f"select from {table} where org_id = %(org)s::uuid{condition} for update"
    )()
