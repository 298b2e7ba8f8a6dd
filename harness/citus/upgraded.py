"""Test of an upgrade: a sample migration of a distributed database that has data."""

import asyncio
from typing import Final
from uuid import UUID

import psycopg
import pytest

from org_env import AgentClient, check_audit, make_env, open_test_database
from postgres_servers import (
    Server,
    ServerDatabase,
    create_cluster_database,
    drop_database,
)
from refused_migrations import REFUSED
from sample_migrations import SAMPLE
from tools.generate.schema import dump
from waybook.app.queries.work_list import RunFilter, list_runs
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.errors import Misconfigured
from waybook.json_values import Body
from waybook.store.calls import CallLog
from waybook.store.maintenance.citus import SQL
from waybook.store.maintenance.migrate import (
    Migration,
    apply,
    distribute,
    list_pending,
    migrate,
)

DBNAME: Final = "waybook_citus_upgraded"
#: Number of environments, each with two orgs. Each of the eight orgs executes every statement,
#: because PostgreSQL may change the query plan of a prepared statement at its sixth execution.
ENVIRONMENTS: Final = 4
#: Statement that Citus accepts, for a migration whose next statement is refused.
ACCEPTED: Final = "create index run_name on run (org_id, name)"


def upgrade(server: Server) -> str:
    """Distribute a database that has data, and upgrade it; return a line for the report.

    Raises:
        AssertionError: the schema is not the expected one, or the application reads other rows.
    """
    place = create_cluster_database(server, DBNAME)
    try:
        migrate(place.owner_dsn)
        orgs = asyncio.run(fill(place))
        before, schema = asyncio.run(read(place, orgs)), dump(place.owner_dsn)
        distribute(place.owner_dsn)
        assert dump(place.owner_dsn) == schema
        check_refusal(place)
        check_sample(place)
        assert asyncio.run(read(place, orgs)) == before
        asyncio.run(go_on(place, orgs))
        # Migrating and distributing must also work if the database owner is a superuser.
        assert migrate(place.admin_dsn) == distribute(place.admin_dsn) == []
    finally:
        drop_database(server, DBNAME)
    return f"a distributed database of {len(orgs)} orgs was migrated, and agents went on there"


async def fill(place: ServerDatabase) -> dict[UUID, tuple[Body, Body]]:
    """Let agents of several orgs work, each on a plan and a run; return these by org."""
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


async def read(place: ServerDatabase, orgs: dict[UUID, tuple[Body, Body]]) -> list[object]:
    """Verify the audit of each org; return what its agents read."""
    replies: list[object] = []
    async with open_test_database(place) as database:
        services = Services(database=database)
        await check_audit(services, *orgs)
        for org_id, (plan, run) in orgs.items():
            caller = Caller(org_id=org_id, user="ann", channel=Channel.MCP)
            agent = AgentClient(ServerDispatcher(services, CallLog(database)), caller)
            context = RequestContext(services=services, caller=caller)
            runs, _ = await list_runs(context, RunFilter(text="region"))
            assert [row.id for row in runs] == [str(run["runId"])]
            replies += [await agent.call("list_active_plans"), runs]
            replies += [await agent.status(plan), await agent.progress(run)]
    return replies


async def go_on(place: ServerDatabase, orgs: dict[UUID, tuple[Body, Body]]) -> None:
    """Let the agents complete their plans and continue their runs; then verify the audit."""
    async with open_test_database(place) as database:
        services = Services(database=database)
        for org_id, (plan, run) in orgs.items():
            caller = Caller(org_id=org_id, user="ann", channel=Channel.MCP)
            agent = AgentClient(ServerDispatcher(services, CallLog(database)), caller)
            await agent.work_through(plan)
            assert (await agent.status(plan))["status"] == "completed"
            await agent.work_off(run)
        await check_audit(services, *orgs)


def check_sample(place: ServerDatabase) -> None:
    """Check that the sample migration distributes the table that it creates."""
    with psycopg.connect(place.owner_dsn) as connection:
        apply(connection, SAMPLE)
        tables = connection.execute(SQL["distributed_tables"].text.encode()).fetchall()
        assert ("note",) in tables


def check_refusal(place: ServerDatabase) -> None:
    """Check that the error names the refused migration, and that its statements had no effect."""
    schema = dump(place.owner_dsn)
    expected = r"9999_refused cannot run on a distributed database"
    for statement in REFUSED:
        refused = Migration(9999, "refused", f"{ACCEPTED}; {statement}")
        with (
            pytest.raises(Misconfigured, match=expected),
            psycopg.connect(place.owner_dsn) as connection,
        ):
            apply(connection, refused)
    assert list_pending(place.owner_dsn) == []
    assert dump(place.owner_dsn) == schema
