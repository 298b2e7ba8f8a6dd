"""Leader among server processes; if its database connection ends, another process takes over."""

import asyncio

import psycopg
import pytest

from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from waybook.errors import Unavailable
from waybook.store.driver import leadership as module
from waybook.store.driver.database import Database
from waybook.store.driver.leadership import DELIVERY, Leadership, hold_leadership
from waybook.store.driver.pool import ConnectionPool


class Leading:
    """Task that becomes the leader, and stays the leader until it ends."""

    def __init__(self, place: ServerDatabase, *, has_webhook: bool = False) -> None:
        self.leadership = Leadership()
        database = Database(ConnectionPool(place.app_dsn))
        holding = hold_leadership(database, self.leadership, has_webhook=has_webhook)
        self.task = asyncio.create_task(holding)

    async def begin(self, work: str = "sweep") -> None:
        """Wait until this task is the leader for this kind of background work."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.leadership.leads(work):  # noqa: ASYNC110 - the state is a plain attribute
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Cancel the task, and so close its database connection."""
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def test_process_becomes_leader_only_after_the_earlier_leader_ends(
    own_place: ServerDatabase,
) -> None:
    first = Leading(own_place)
    await first.begin()
    second = Leading(own_place)
    await second.task
    assert not second.leadership.is_leader
    await first.end()
    assert not first.leadership.is_leader
    third = Leading(own_place)
    await third.begin()
    await third.end()


async def test_process_with_webhook_settings_sends_webhooks_if_leader_cannot(
    own_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.01)
    leader = Leading(own_place)
    await leader.begin()
    deliverer = Leading(own_place, has_webhook=True)
    await deliverer.begin(DELIVERY)
    assert not leader.leadership.leads(DELIVERY)
    assert not deliverer.leadership.is_leader
    await leader.end()
    await deliverer.begin()
    assert deliverer.leadership.leads(DELIVERY)
    await deliverer.end()


async def test_leadership_ends_with_the_database_connection(
    own_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.01)
    leader = Leading(own_place)
    await leader.begin()
    with psycopg.connect(own_place.admin_dsn, autocommit=True) as admin:
        admin.execute(
            """select pg_terminate_backend(pid) from pg_locks
                where locktype = 'advisory'
                  and database = (select oid from pg_database where datname = current_database())"""
        )
    with pytest.raises(Unavailable, match="leadership broke"):
        await leader.task
    assert not leader.leadership.is_leader


async def test_open_transaction_of_the_leader_does_not_hold_back_vacuum(
    own_place: ServerDatabase,
) -> None:
    leader = Leading(own_place)
    await leader.begin()
    with psycopg.connect(own_place.admin_dsn, autocommit=True) as admin:
        rows = admin.execute(
            """select a.backend_xid, a.backend_xmin from pg_stat_activity a
                where a.datname = current_database() and a.state = 'idle in transaction'"""
        ).fetchall()
    assert rows == [(None, None)]
    await leader.end()
