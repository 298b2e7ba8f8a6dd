"""Transactions through a real pgbouncer, which must leave no state on its connections."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

import missing_programs
from org_env import AgentClient, Body, OrgEnv, make_env, open_test_database
from patience import PATIENCE_SECONDS
from pgbouncer import PGBOUNCER, POOL, start_pgbouncer
from postgres_servers import ServerDatabase
from statements import lock_rows
from waybook.accounts.model import LOCAL_ORG
from waybook.app.request.services import Services
from waybook.loops import event_listen_loop
from waybook.store.driver import pg_notify
from waybook.store.driver.bus import ChangeFeed
from waybook.store.driver.database import Database

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason=missing_programs.PGBOUNCER.missing)

SETTINGS = {
    "lock_timeout": "5s",
    "statement_timeout": "6s",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}
WORKERS = 6
ROUNDS = 4


@pytest.fixture
def pooled_place(own_place: ServerDatabase) -> Iterator[ServerDatabase]:
    with start_pgbouncer(own_place) as place:
        yield place


@pytest.fixture
async def pooled(pooled_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    """Yield a test environment with more connections than pgbouncer has to the server."""
    async with make_env(pooled_place, pool_size=2 * WORKERS) as world:
        world.other_org_may_change = True
        yield world


async def hammer(agent: AgentClient, mark: str, others: list[str], name: str) -> None:
    """Work on plans and runs, and search; check that no data of another org is visible."""
    for number in range(ROUNDS):
        plan = await agent.plan(2, name=f"{mark} {name} {number}", idempotencyKey=f"{name}{number}")
        content = f"The {mark} river {name} {number} is long."
        stored = {"planId": plan["planId"], "kind": "note", "title": mark, "content": content}
        await agent.call("store_research", **stored)
        assert (await agent.work_through(plan))["status"] == "plan_complete"
        await agent.plan(1, name=f"{mark} open")
        assert_own(mark, await agent.call("list_active_plans", limit=100))
        results = await agent.call("search_sources", query="river", limit=20)
        assert results["hits"]
        assert all(mark in hit["title"] for hit in results["hits"])
        run = await agent.run(models="a", name=f"{mark} run")
        job = await agent.job(run)
        assert job["runId"] == run["runId"]
        await agent.submit_documents(job)
        for foreign in others:
            refused = await agent.refused("get_plan_status", planId=foreign)
            assert refused["code"] == "NOT_FOUND"


def assert_own(mark: str, listed: Body) -> None:
    assert listed["plans"]
    assert [plan["name"] for plan in listed["plans"] if mark not in plan["name"]] == []


async def test_concurrent_orgs_behind_a_pooler_stay_isolated(pooled: OrgEnv) -> None:
    mine = await pooled.agent.plan(name="mine alone")
    theirs = await pooled.other_org.plan(name="theirs alone")
    workers = [
        hammer(agent, mark, [foreign["planId"]], str(number))
        for agent, mark, foreign in (
            (pooled.agent, "mine", theirs),
            (pooled.other_org, "theirs", mine),
        )
        for number in range(WORKERS)
    ]
    await complete_unmarked_plan(pooled.other_org, pooled.other_org_plan)
    await asyncio.gather(*workers)


async def complete_unmarked_plan(agent: AgentClient, plan: Body) -> None:
    """Complete a plan whose name has no marker, so that lists of active plans do not contain it."""
    await agent.work_through(plan)


async def settings_in(database: Database, org_id: UUID) -> dict[str, str]:
    shown = [f"show {name}" for name in SETTINGS]
    results = await database.read_org(org_id, *shown)
    return dict(zip(SETTINGS, (rows[0][0] for rows in results), strict=True))


async def test_every_transaction_behind_a_pooler_has_the_required_settings(
    pooled_place: ServerDatabase,
) -> None:
    async with open_test_database(pooled_place, pool_size=3 * POOL) as database:
        orgs = [UUID(int=number) for number in range(3 * POOL)]
        settings = await asyncio.gather(*[settings_in(database, org) for org in orgs])
        assert database.wire.pooled
    assert settings == [SETTINGS] * len(orgs)


async def left_behind(place: ServerDatabase) -> list[tuple[Any, ...]]:
    """Return the settings that a new client finds on each server connection of pgbouncer."""
    async with AsyncExitStack() as stack:
        rows = []
        # An open transaction occupies a server connection, so each of these clients gets a
        # different server connection.
        for _ in range(POOL):
            other = await AsyncConnection.connect(place.app_dsn, prepare_threshold=None)
            await stack.enter_async_context(other)
            cursor = await other.execute(
                """select pg_backend_pid(), current_setting('lock_timeout'),
                          current_setting('enable_seqscan'),
                          coalesce(current_setting('app.org_id', true), ''),
                          (select count(*) from pg_prepared_statements),
                          (select count(*) from pg_listening_channels())"""
            )
            rows.append(await cursor.fetchone() or ())
    assert len({row[0] for row in rows}) == POOL
    return [row[1:] for row in rows]


async def test_server_connections_of_pooler_have_no_state_of_earlier_sessions(
    pooled: OrgEnv,
) -> None:
    await asyncio.gather(*[pooled.agent.plan() for _ in range(2 * WORKERS)])
    await pg_notify.listen(pooled.database, pooled.dispatcher.bus)
    assert await left_behind(pooled.place) == [("0", "on", "", 0, 0)] * POOL


async def test_lock_timeout_behind_a_pooler_returns_a_busy_error(
    pooled_place: ServerDatabase,
) -> None:
    async with make_env(pooled_place, lock_timeout="50ms") as world:
        plan = await world.agent.plan()
        async with world.database.org_transaction(world.agent.org_id) as tx:
            await tx.send(lock_rows("plan"))
            error = await world.agent.refused("get_next_step", planId=plan["planId"])
    assert error["code"] == "BUSY"


async def test_pooler_detected_at_first_connection_is_logged_once(
    pooled_place: ServerDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_test_database(pooled_place) as database:
        await asyncio.gather(*[settings_in(database, LOCAL_ORG) for _ in range(4)])
    messages = [record.message for record in caplog.records if "pooler" in record.message]
    assert messages == ["a pooler is in front of the database: statements are not prepared"]


async def test_direct_database_connection_is_not_reported_as_a_pooler(
    own_place: ServerDatabase,
) -> None:
    async with open_test_database(own_place) as database:
        assert await settings_in(database, LOCAL_ORG) == SETTINGS
        assert not database.wire.pooled


async def test_change_poller_behind_pooler_delivers_events_of_other_process(pooled: OrgEnv) -> None:
    """LISTEN does not work through pgbouncer, so open pages depend on the poller."""
    here, feed = Services(database=pooled.database), ChangeFeed()
    lookout = pg_notify.ChangePoller()
    with here.bus.subscription(pooled.agent.org_id, feed):
        async with asyncio.timeout(PATIENCE_SECONDS):
            # LISTEN does not work through pgbouncer, so this function returns.
            await event_listen_loop(here)
        plan = await pooled.agent.plan(name="from elsewhere")
        await pg_notify.send_pending(pooled.database, pooled.dispatcher.bus)
        assert feed.take() == ()
        await lookout.poll(pooled.database, here.bus)
        assert f"plan:{plan['planId']}" in feed.take()
