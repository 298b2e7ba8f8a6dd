"""Examines the role of the database owner, and enforces row-level security for it.

A superuser is exempt from row-level security, so it switches to `waybook_maintenance` before it
changes an org. See decision 0045.
"""

from typing import NamedTuple

import psycopg

from waybook.errors import Misconfigured
from waybook.store.driver.queries import Query, first_column, load
from waybook.store.maintenance.citus import is_distributed, lacks_maintenance_login
from waybook.store.maintenance.migrate import MAINTENANCE_ROLE, owner_connection


class RoleRow(NamedTuple):
    name: str
    superuser: bool
    bypasses: bool
    can_step_down: bool


SQL = load("maintenance/owner_role", role=RoleRow)


class OwnerRole(NamedTuple):
    """The role in the owner's URL, and whether row-level security applies to it."""

    name: str
    superuser: bool
    bypasses: bool
    refusal: str | None = None

    @property
    def is_exempt(self) -> bool:
        return self.superuser or self.bypasses


def examine_owner(dsn: str) -> OwnerRole:
    with owner_connection(dsn) as connection:
        role, _ = _read_role(connection)
        try:
            with connection.transaction(force_rollback=True):
                confine(connection)
        except Misconfigured as error:
            return role._replace(refusal=error.message)
        return role


def confine(connection: psycopg.Connection) -> None:
    """Enforce row-level security for the rest of the transaction, in another role if needed.

    Raises:
        Misconfigured: no suitable role is available; the message has the SQL that fixes this.
    """
    role, exists = _read_role(connection)
    if role.is_exempt:
        _step_down(connection, role, exists=exists)
    if tables := _names(connection, SQL["exempt"]):
        raise Misconfigured(
            f"row-level security is not in force on {', '.join(tables)} for the owner of the "
            "database, so a change of one org could reach others; nothing was changed. Look at: "
            "waybook doctor"
        )


def _step_down(connection: psycopg.Connection, role: OwnerRole, *, exists: bool) -> None:
    on_cluster = is_distributed(connection)
    create = f"create role {MAINTENANCE_ROLE} {'login' if on_cluster else 'nologin'}; "
    let_in = f"alter role {MAINTENANCE_ROLE} login; " if on_cluster else ""
    prepare = let_in if exists else create
    refusal = (
        f"the owner {role.name} bypasses row-level security and cannot step down to "
        f"{MAINTENANCE_ROLE}, so a change of one org could reach others; nothing was changed. "
        f"As an administrator run: {prepare}grant {MAINTENANCE_ROLE} to {role.name}; "
        "and then: waybook migrate"
    )
    try:
        with connection.transaction():
            connection.execute(SQL["step_down"].text.encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue):
        raise Misconfigured(refusal) from None
    if on_cluster and lacks_maintenance_login(connection):
        raise Misconfigured(
            f"the role {MAINTENANCE_ROLE} cannot log in to the nodes of the cluster; nothing was "
            f"changed. As an administrator run: {let_in}and then: waybook migrate"
        )
    if tables := _names(connection, SQL["not_granted"]):
        raise Misconfigured(
            f"the role {MAINTENANCE_ROLE} may not change {', '.join(tables)}; nothing was "
            "changed. Run as the owner: waybook migrate"
        )


def _read_role(connection: psycopg.Connection) -> tuple[OwnerRole, bool]:
    (row,) = map(RoleRow._make, connection.execute(SQL["role"].text.encode()))
    return OwnerRole(row.name, row.superuser, row.bypasses), row.can_step_down


def _names(connection: psycopg.Connection, query: Query) -> list[str]:
    return first_column(connection.execute(query.text.encode()))
