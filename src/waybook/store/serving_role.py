"""Whether the user of the database URL may serve: they must be able to take on the serving role."""

import psycopg
from psycopg import sql

from waybook.errors import Misconfigured
from waybook.store.migrate import owner_connection
from waybook.store.sql import load

SQL = load("serving_role")


def check_serving_role(dsn: str, role: str) -> None:
    """Take the role on once, so that it is said at the start if that cannot be.

    Raises:
        Misconfigured: the user is not a member of it, or no policy applies to the role.
        Unavailable: the database cannot be reached as this user.
    """
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
