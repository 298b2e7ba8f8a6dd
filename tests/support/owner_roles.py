"""Databases whose owners have different rights, and copies of an org with the same row ids."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from erasure_checks import add_user, tables
from foreign_records import all_foreign_records
from org_env import AgentClient, OrgEnv
from postgres_servers import Server, ServerDatabase, new_database
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import MAINTENANCE_ROLE, migrate

#: Kinds of database owners: a plain role, a role with `BYPASSRLS` as on managed servers, and a
#: superuser as in the Docker image of PostgreSQL.
OWNERS = ("ordinary", "bypassing", "superuser")
EXEMPT = ("bypassing", "superuser")

#: Name of a user in the org, whom a test can erase.
LEAVING = "Lea Leaving"


@contextmanager
def place_owned_by(kind: str, server: Server) -> Iterator[ServerDatabase]:
    """Yield a migrated database whose owner is of this kind, one of `OWNERS`."""
    with ExitStack() as stack:
        dsn = server.owner_dsn if kind == "ordinary" else server.admin_dsn
        if kind == "bypassing":
            dsn = stack.enter_context(open_role(server, "bypassrls createrole", member=True))
        made = stack.enter_context(new_database(server))
        place = replace(made, server=replace(server, owner_dsn=dsn))
        if kind != "ordinary":
            transfer_ownership(place)
            migrate(place.owner_dsn)
        yield place


def transfer_ownership(place: ServerDatabase) -> None:
    """Make the role in `place.owner_dsn` the owner of the database and of all its tables."""
    owner = sql.Identifier(str(conninfo_to_dict(place.owner_dsn)["user"]))
    named = sql.Identifier(place.dbname)
    for node in place.server.nodes:
        with psycopg.connect(node) as admin:
            admin.execute(sql.SQL("alter database {} owner to {}").format(named, owner))
    # Change each table in a transaction of its own: Citus refuses to change a reference table after
    # a distributed table.
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        cursor = admin.execute(
            """select relname from pg_class
                where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"""
        )
        for (table,) in cursor.fetchall():
            change = sql.SQL("alter table {} owner to {}")
            admin.execute(change.format(sql.Identifier(table), owner))


@contextmanager
def open_role(server: Server, attributes: str, *, member: bool = False) -> Iterator[str]:
    """Create a database role with these attributes; yield its DSN.

    If `member` is true, an administrator grants the maintenance role to the new role. The new role
    cannot do this by itself if another test on the same server created the maintenance role.
    """
    name = f"owner_{new_uuid().replace('-', '')}"
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        admin.execute(f"create role {name} login password 'choose one' {attributes}".encode())
        if member:
            with suppress(psycopg.errors.DuplicateObject):
                admin.execute(f"create role {MAINTENANCE_ROLE}")
            admin.execute(f"grant {MAINTENANCE_ROLE} to {name}".encode())
        try:
            yield make_conninfo(server.owner_dsn, user=name, password="choose one")  # noqa: S106
        finally:
            admin.execute(f"drop role {name}".encode())


@contextmanager
def empty_place(server: Server, owner_dsn: str) -> Iterator[ServerDatabase]:
    """Yield a database without tables, owned by the role of this DSN."""
    owner = sql.Identifier(str(conninfo_to_dict(owner_dsn)["user"]))
    dbname = f"test_{new_uuid().replace('-', '')}"
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        named = sql.Identifier(dbname)
        admin.execute(sql.SQL("create database {} owner {}").format(named, owner))
        try:
            yield ServerDatabase(server=replace(server, owner_dsn=owner_dsn), dbname=dbname)
        finally:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(named))


async def fill(world: OrgEnv, name: str) -> None:
    """Insert rows into every table with an `org_id`; some of the rows belong to the user `name`."""
    # These rows have no audit entries, so the test must not compare the rows with the audit.
    world.is_sound = False
    agent = world.agent.acting_as(name)
    await all_foreign_records(agent)
    for user_name in (name, LEAVING):
        await add_user(world.place, agent, user_name)
    with psycopg.connect(world.place.admin_dsn) as admin:
        admin.execute(
            """insert into webhook_delivery (org_id, id, event, data, at, due_at, expires_at)
               values (%s, %s, 'x', json_build_object('by', %s::text), now(), now(), now())""",
            (agent.org_id, new_uuid(), name),
        )


def clone(place: ServerDatabase, agent: AgentClient) -> UUID:
    """Copy every row of an org to a new org with the same ids; return the new org's id."""
    twin = UUID(new_uuid())
    with psycopg.connect(place.admin_dsn) as admin:
        # Insert the rows without checks of foreign keys.
        admin.execute("set local session_replication_role = replica")
        for table in tables(place):
            _clone_rows(admin, table, agent.org_id, twin)
    return twin


def _clone_rows(admin: psycopg.Connection, table: str, org_id: UUID, twin: UUID) -> None:
    cursor = admin.execute(
        """select attname from pg_attribute
            where attrelid = %s::regclass and attnum > 0 and not attisdropped
              and attgenerated = '' and attname <> 'org_id'""",
        (table,),
    )
    columns = [sql.Identifier(row[0]) for row in cursor.fetchall()]
    copied = [
        sql.SQL("slug || '-twin'") if (table, column) == ("org", sql.Identifier("slug")) else column
        for column in columns
    ]
    insert = sql.SQL("insert into {} (org_id, {}) select %s, {} from {} where org_id = %s")
    named, join = sql.Identifier(table), sql.SQL(", ").join
    admin.execute(insert.format(named, join(columns), join(copied), named), (twin, org_id))


def make_everything_old(place: ServerDatabase, agent: AgentClient) -> None:
    """End all plans and runs of an org, and make its data older than the retention periods."""
    old, over = "now() - interval '100 days'", "status = 'completed'"
    with psycopg.connect(place.admin_dsn) as admin:
        for table, columns in {
            "plan": ("status", "completed_at", "updated_at"),
            "run": ("canceled_at", "completed_at", "updated_at"),
            "idempotency_answer": ("created_at",),
            "web_session": ("ended_at",),
            "mcp_tool_call_log": ("at",),
        }.items():
            ends = {
                "status": over,
                "canceled_at": "canceled_at = null, canceled_by = null, cancel_reason = null",
            }
            change = ", ".join(ends.get(c, f"{c} = {old}") for c in columns)
            update = f"update {table} set {change} where org_id = %s"  # noqa: S608 - names from above
            admin.execute(update.encode(), (agent.org_id,))
