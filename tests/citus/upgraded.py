"""Upgrade of a database that was distributed with the schema of an earlier version.

The rows come from a database of the current version, without what the earlier schema did not have.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from full_ids import full_id
from org_env import AgentClient, check_audit, make_env, open_test_database
from postgres_servers import (
    Server,
    ServerDatabase,
    create_cluster_database,
    drop_database,
    new_database,
)
from refused_migrations import REFUSED
from tools.generate.files import SCHEMA
from tools.generate.schema import dump
from waybook.app.queries.runs.run_list import RunFilter, list_runs
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.errors import Misconfigured
from waybook.json_values import Body
from waybook.store.calls import CallLog
from waybook.store.maintenance.cluster_tables import SQL
from waybook.store.maintenance.distribute import distribute
from waybook.store.maintenance.migrate import list_pending, migrate
from waybook.store.maintenance.migration_statements import apply

DBNAME: Final = "waybook_citus_upgraded"
#: First migration whose schema can be distributed; a trigger prevented it before.
FIRST: Final = 27
#: Number of orgs, two for each environment. PostgreSQL may plan a repeated statement of a function
#: in another way from the sixth execution.
ENVIRONMENTS: Final = 4
#: Details of audit entries as earlier versions stored them.
DETAILS: Final = (
    "app_entry_details(details, packed, step_id, subject_id, at, actor, session)::json as details"
)
COLUMNS: Final = """
select attname from pg_attribute
 where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = ''
 order by attnum
"""
#: Migration with a table that references a distributed one, as a later version may add it.
NEW_TABLE: Final = """
create table note (
  org_id  uuid not null default app_org() references org,
  id      uuid not null,
  plan_id uuid not null,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id)
);
create index note_plan on note (org_id, plan_id);
alter table note enable row level security;
alter table note force row level security;
create policy tenant on note using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on note to waybook_app;
"""
#: Statement of a refused migration that Citus executes before the refused one.
ACCEPTED: Final = "create index run_name on run (org_id, name)"


def upgrade(server: Server, migrate_to_head: Callable[[ServerDatabase], None]) -> str:
    """Distribute a database of an earlier version, and upgrade it; return a line for the report.

    Raises:
        AssertionError: the schema is not the current one, or the application reads other rows.
    """
    with new_database(server) as current, earlier_database(server) as upgraded:
        orgs = asyncio.run(fill(current))
        copied = copy_rows(current, upgraded)
        distribute(upgraded.owner_dsn)
        pending = list_pending(upgraded.owner_dsn)
        migrate_to_head(upgraded)
        check_schema(upgraded)
        words = "select org_id, word, run_id from run_word order by org_id, word, run_id"
        assert fetch(upgraded, words) == fetch(current, words) != []
        assert asyncio.run(read(upgraded, orgs)) == asyncio.run(read(current, orgs))
        asyncio.run(go_on(upgraded, orgs))
        check_new_table(upgraded)
        check_refusal(upgraded)
    with earlier_database(server) as owned:
        upgrade_as_superuser(owned)
    return (
        f"a database distributed at migration {FIRST} with {copied} rows of {len(orgs)} orgs was "
        f"migrated by {len(pending)} migrations, and agents went on there"
    )


@contextmanager
def earlier_database(server: Server) -> Iterator[ServerDatabase]:
    """Yield a database with the schema of an earlier version, not distributed yet."""
    place = create_cluster_database(server, DBNAME)
    try:
        migrate(place.owner_dsn, up_to=FIRST)
        yield place
    finally:
        drop_database(server, DBNAME)


async def fill(place: ServerDatabase) -> dict[UUID, tuple[Body, Body]]:
    """Let agents of several orgs work on a plan and on a run each; return these by org."""
    filled = {}
    for number in range(ENVIRONMENTS):
        async with make_env(place) as world:
            world.other_org_may_change = True
            for agent in (world.agent, world.other_org):
                plan = await agent.plan(3, name=f"Plan {number}")
                await agent.submit(await agent.take(plan))
                run = await agent.run(name=f"Rivers of region {number}")
                await agent.submit_documents(await agent.job(run))
                filled[agent.org_id] = (plan, run)
    return filled


def copy_rows(source: ServerDatabase, target: ServerDatabase) -> int:
    """Copy the rows that the schema of the target has; return their number."""
    copied = 0
    with psycopg.connect(source.admin_dsn) as read, psycopg.connect(target.admin_dsn) as write:
        # Without triggers, and therefore in any order of the tables.
        write.execute("set local session_replication_role = replica")
        for (table,) in write.execute(SQL["tables_to_distribute"].text.encode()).fetchall():
            names = [name for (name,) in write.execute(COLUMNS, (table,)).fetchall()]
            columns = sql.SQL(", ").join(map(sql.Identifier, names))
            listed = [
                sql.SQL(DETAILS)
                if (table, name) == ("audit_entry", "details")
                else sql.Identifier(name)
                for name in names
            ]
            into = sql.Identifier(table)
            write.execute(sql.SQL("delete from {}").format(into))
            select = sql.SQL("copy (select {} from {}) to stdout").format(
                sql.SQL(", ").join(listed), into
            )
            insert = sql.SQL("copy {} ({}) from stdin").format(into, columns)
            with read.cursor().copy(select) as rows, write.cursor() as cursor:
                with cursor.copy(insert) as copy:
                    for row in rows:
                        copy.write(row)
                copied += cursor.rowcount
    return copied


def fetch(place: ServerDatabase, text: str) -> list[tuple[object, ...]]:
    """Return the rows of a query on all orgs."""
    with psycopg.connect(place.admin_dsn) as admin:
        return admin.execute(text.encode()).fetchall()


def check_schema(place: ServerDatabase) -> None:
    """Check that the schema is the current one and that every table is distributed."""
    assert list_pending(place.owner_dsn) == []
    assert dump(place.owner_dsn) == SCHEMA.read_text("utf-8")
    assert distribute(place.owner_dsn) == []


async def read(place: ServerDatabase, orgs: dict[UUID, tuple[Body, Body]]) -> list[object]:
    """Return what the agents of each org read, after a verification of their audit."""
    replies: list[object] = []
    async with open_test_database(place) as database:
        services = Services(database=database)
        await check_audit(services, *orgs)
        for org_id, (plan, run) in orgs.items():
            caller = Caller(org_id=org_id, user="ann", channel=Channel.MCP)
            agent = AgentClient(ServerDispatcher(services, CallLog(database)), caller)
            context = RequestContext(services=services, caller=caller)
            page = await list_runs(context, RunFilter(text="region"))
            assert [row.id for row in page.runs] == [full_id(str(run["runId"]))]
            replies += [await agent.call("list_active_plans"), page]
            replies += [await agent.status(plan), await agent.progress(run)]
    return replies


async def go_on(place: ServerDatabase, orgs: dict[UUID, tuple[Body, Body]]) -> None:
    """Let the agents complete their plans and work on their runs, and verify the audit."""
    async with open_test_database(place) as database:
        services = Services(database=database)
        for org_id, (plan, run) in orgs.items():
            caller = Caller(org_id=org_id, user="ann", channel=Channel.MCP)
            agent = AgentClient(ServerDispatcher(services, CallLog(database)), caller)
            await agent.work_through(plan)
            assert (await agent.status(plan))["status"] == "completed"
            await agent.work_off(run)
        await check_audit(services, *orgs)


def check_new_table(place: ServerDatabase) -> None:
    """Check that a table is distributed by the migration that creates it."""
    with psycopg.connect(place.owner_dsn) as connection:
        apply(connection, "9998_new_table", NEW_TABLE)
        tables = connection.execute(SQL["distributed_tables"].text.encode()).fetchall()
        assert ("note",) in tables
        connection.rollback()


def check_refusal(place: ServerDatabase) -> None:
    """Check that the error for a refused migration names it, and that nothing of it was done."""
    expected = r"9999_refused cannot run on a distributed database"
    for statement in REFUSED:
        with (
            pytest.raises(Misconfigured, match=expected),
            psycopg.connect(place.owner_dsn) as connection,
        ):
            apply(connection, "9999_refused", f"{ACCEPTED}; {statement}")
    check_schema(place)


def upgrade_as_superuser(place: ServerDatabase) -> None:
    """Distribute an empty database as a superuser, and upgrade it."""
    distribute(place.admin_dsn)
    migrate(place.admin_dsn)
    assert list_pending(place.admin_dsn) == []
    assert distribute(place.admin_dsn) == []
