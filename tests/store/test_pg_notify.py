"""Change events between processes that use the same PostgreSQL database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import psycopg

from org_env import OrgEnv
from patience import NOTICE_SECONDS
from waybook.app.request.services import Services
from waybook.loops import change_poll_loop, event_listen_loop, event_publish_loop
from waybook.store.driver import pg_notify
from waybook.store.driver.bus import ALL_TOPICS, Bus, ChangeFeed
from waybook.store.driver.queries import load

NEVER = 3600.0
COUNT = "select count(*) from pg_stat_activity where query like 'listen waybook%%' and datname = %s"
END = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
    "where query like 'listen waybook%%' and datname = %s"
)


def another_process(world: OrgEnv) -> Services:
    return replace(world.dispatcher.services, bus=Bus())


@asynccontextmanager
async def at_work(*tasks: asyncio.Task[None]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def heard(feed: ChangeFeed, topic: str) -> set[str]:
    """Read change events until this topic has arrived; return all topics that arrived."""
    so_far: set[str] = set()
    async with asyncio.timeout(NOTICE_SECONDS):
        while topic not in so_far:
            so_far |= set(await feed.read(NOTICE_SECONDS))
    return so_far


async def listens(world: OrgEnv, count: int = 1) -> None:
    """Wait until this many database connections wait for change events."""
    with psycopg.connect(world.place.server.admin_dsn, autocommit=True) as connection:
        async with asyncio.timeout(NOTICE_SECONDS):
            while True:
                row = connection.execute(COUNT, [world.place.dbname]).fetchone()
                if row and row[0] >= count:
                    return
                await asyncio.sleep(0.01)


async def test_change_event_reaches_other_processes_but_not_other_orgs(own_world: OrgEnv) -> None:
    ours, there = own_world.dispatcher.services, another_process(own_world)
    feed, next_door = ChangeFeed(), ChangeFeed()
    await pg_notify.send_pending(ours.database, ours.bus)
    listening = asyncio.create_task(event_listen_loop(there))
    sending = asyncio.create_task(event_publish_loop(ours))
    async with at_work(listening, sending):
        with (
            there.bus.subscription(own_world.agent.org_id, feed),
            there.bus.subscription(own_world.other_org.org_id, next_door),
        ):
            await listens(own_world)
            plan = await own_world.agent.plan(2)
            topics = await heard(feed, f"plan:{plan['planId']}")
            assert topics == {f"plan:{plan['planId']}", "plans", "inbox"}
            await own_world.agent.take(plan)
            assert "plans" in await heard(feed, f"plan:{plan['planId']}")
            assert next_door.take() == ()


async def test_change_poller_detects_a_change_that_no_process_has_announced(
    own_world: OrgEnv,
) -> None:
    """A process that was killed sent no event for its last change, so the poller must find it."""
    there, feed = another_process(own_world), ChangeFeed()
    plan = await own_world.agent.plan(2)
    run = await own_world.agent.run()
    looking = asyncio.create_task(change_poll_loop(there, NEVER))
    async with at_work(looking):
        with there.bus.subscription(own_world.agent.org_id, feed):
            topics = await heard(feed, f"run:{run['runId']}")
            assert topics == {
                *(f"plan:{plan['planId']}", f"run:{run['runId']}", "plans", "runs", "inbox")
            }
    lookout = pg_notify.ChangePoller()
    with there.bus.subscription(own_world.agent.org_id, feed):
        await lookout.poll(there.database, there.bus)
        assert feed.take() == ()
        await own_world.agent.take(plan)
        await lookout.poll(there.database, there.bus)
        assert f"plan:{plan['planId']}" in feed.take()


async def test_change_poller_reports_all_topics_after_too_many_changes(own_world: OrgEnv) -> None:
    there, feed = another_process(own_world), ChangeFeed()
    for _ in range(3):
        await own_world.agent.plan(1)
    with there.bus.subscription(own_world.agent.org_id, feed):
        await pg_notify.ChangePoller(most=2).poll(there.database, there.bus)
    assert feed.take() == (ALL_TOPICS,)


async def test_change_poller_uses_the_index_on_audit_time(own_world: OrgEnv) -> None:
    await own_world.agent.plan(3)
    query = (
        load("driver/pg_notify")["changed"]
        .text.replace("%(seconds)s", "15")
        .replace("%(most)s", "10")
        .replace("%(org)s", f"'{own_world.agent.org_id}'")
    )
    (rows,) = await own_world.database.read_org(own_world.agent.org_id, f"explain {query}")
    assert any("Index Cond" in row[0] and "(at > " in row[0] for row in rows), rows


async def test_event_listener_reconnects_after_a_broken_connection(own_world: OrgEnv) -> None:
    ours, there, feed = own_world.dispatcher.services, another_process(own_world), ChangeFeed()
    listening = asyncio.create_task(event_listen_loop(there))
    sending = asyncio.create_task(event_publish_loop(ours))
    async with at_work(listening, sending):
        with there.bus.subscription(own_world.agent.org_id, feed):
            await listens(own_world)
            admin_dsn, name = own_world.place.server.admin_dsn, own_world.place.dbname
            with psycopg.connect(admin_dsn, autocommit=True) as connection:
                connection.execute(END, [name])
            await listens(own_world)
            plan = await own_world.agent.plan(2)
            await heard(feed, f"plan:{plan['planId']}")


async def test_many_pending_change_events_are_sent_in_a_single_notification(
    own_world: OrgEnv,
) -> None:
    services = own_world.dispatcher.services
    await pg_notify.send_pending(services.database, services.bus)
    plans = [await own_world.agent.plan(1) for _ in range(20)]
    for plan in plans:
        await own_world.agent.take(plan)
    assert await pg_notify.send_pending(services.database, services.bus) == 1
    assert await pg_notify.send_pending(services.database, services.bus) == 0
