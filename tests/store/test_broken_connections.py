"""Database connections that are reset, cut in the middle of an answer, or lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import NoReturn

import psycopg
import pytest

from fault_link import FaultLink, fault_link
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from waybook.accounts.model import LOCAL_ORG
from waybook.errors import Refused, Unavailable
from waybook.store.driver import pool as connection_pool
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import Query

SELECT_1 = Query("one", "select 1")
LONG = Query("long", "select repeat('x', %(length)s::integer)")
LENGTH = Query("length", "select length(%(text)s::text)")
CALLS = 16
SIZE = 4


@pytest.fixture
def place(eighteen: Server) -> Iterator[ServerDatabase]:
    with new_database(eighteen) as made:
        yield made


@pytest.fixture
async def linked(place: ServerDatabase) -> AsyncIterator[tuple[FaultLink, Database]]:
    """Yield a proxy to the database server, and a `Database` that connects through the proxy."""
    with fault_link(place.app_dsn) as (link, dsn):
        pool = ConnectionPool(dsn, size=SIZE)
        # The timeout for answers is longer than the test may take, so the test fails if a reset is
        # noticed only by the timeout.
        pool.wire.message_seconds = 2 * PATIENCE_SECONDS
        with closing(Database(pool, role=place.server.role)) as database:
            yield link, database


async def call(database: Database) -> bool:
    """Run a query; return whether it succeeded. Raise `TimeoutError` if it takes too long."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            await database.read_org(LOCAL_ORG, SELECT_1(), LONG(length=100_000))
        except Unavailable:
            return False
    return True


async def succeed(database: Database, calls: int) -> list[bool]:
    return await asyncio.gather(*(call(database) for _ in range(calls)))


async def test_connection_pool_works_after_25_connection_resets(
    linked: tuple[FaultLink, Database],
) -> None:
    link, database = linked
    for _ in range(25):
        calls = [asyncio.create_task(call(database)) for _ in range(CALLS)]
        await asyncio.sleep(0)
        link.reset_all()
        await asyncio.gather(*calls)
    # These calls may fail, because their connections have just been reset.
    await succeed(database, CALLS)
    assert await succeed(database, CALLS) == [True] * CALLS


@pytest.mark.parametrize("bytes_before_reset", [1, 100, 50_000, 1_000_000])
async def test_connection_pool_recovers_after_reset_during_or_after_a_response(
    linked: tuple[FaultLink, Database], bytes_before_reset: int
) -> None:
    link, database = linked
    assert await call(database)
    for _ in range(5):
        link.reset_after_bytes = bytes_before_reset
        calling = asyncio.create_task(call(database))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not link.holds_answer.is_set():  # noqa: ASYNC110 - set by a thread
                await asyncio.sleep(0)
        # This call blocks the event loop until the reset, so the driver gets the answer and the
        # reset at the same time.
        link.answer_and_reset()
        await calling
        await call(database)
    assert await succeed(database, CALLS) == [True] * CALLS


async def test_connection_pool_replaces_idle_connections_that_were_reset(
    linked: tuple[FaultLink, Database],
) -> None:
    link, database = linked
    assert await succeed(database, SIZE) == [True] * SIZE
    link.reset_all()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(line.is_clean() for line in database.pool._free):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    assert await succeed(database, CALLS) == [True] * CALLS


async def test_database_is_usable_again_after_calls_timed_out(
    linked: tuple[FaultLink, Database],
) -> None:
    link, database = linked
    database.wire.message_seconds = 1.0
    assert await succeed(database, SIZE) == [True] * SIZE
    link.is_open.clear()
    assert await succeed(database, SIZE) == [False] * SIZE
    link.is_open.set()
    assert await succeed(database, CALLS) == [True] * CALLS
    assert not database.pool.is_stuck()


async def test_canceled_database_call_on_stalled_network_ends_by_deadline(
    linked: tuple[FaultLink, Database],
) -> None:
    link, database = linked
    assert await call(database)
    link.is_open.clear()
    hanging = asyncio.create_task(call(database))
    await asyncio.sleep(0)
    hanging.cancel()
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await hanging
    link.is_open.set()
    assert await succeed(database, CALLS) == [True] * CALLS


async def test_large_query_over_a_stalled_network_fails_at_the_deadline(
    linked: tuple[FaultLink, Database],
) -> None:
    link, database = linked
    database.wire.message_seconds = 1.0
    assert await call(database)
    link.is_open.clear()
    text = "sixteen letters." * 4_000_000
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(Unavailable):
            await database.read_org(LOCAL_ORG, LENGTH(text=text))
    link.is_open.set()
    assert await call(database)


async def test_transaction_raises_the_original_error_when_the_rollback_fails(
    linked: tuple[FaultLink, Database],
) -> None:
    link, database = linked

    async def refuse() -> None:
        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.send(SELECT_1())
            link.reset_all()
            raise Refused("not now")

    with pytest.raises(Refused, match="not now"):
        await refuse()
    assert await succeed(database, CALLS) == [True] * CALLS


async def test_locks_of_unresponsive_client_are_released_after_idle_timeout(
    place: ServerDatabase,
) -> None:
    with (
        closing(Database(ConnectionPool(place.app_dsn), role=place.server.role)) as vanished,
        closing(Database(ConnectionPool(place.app_dsn), role=place.server.role)) as other,
    ):
        vanished.wire.idle_timeout = "200ms"
        async with vanished.org_transaction(LOCAL_ORG) as tx:
            await tx.send("select pg_advisory_xact_lock(7)")
            # The first client sends nothing more over its open connection, so PostgreSQL must end
            # the transaction of the first client.
            async with (
                other.org_transaction(LOCAL_ORG) as waiting,
                asyncio.timeout(PATIENCE_SECONDS),
            ):
                await waiting.commit("select pg_advisory_xact_lock(7)")


async def test_pool_counts_as_stuck_while_a_connection_is_used_too_long(
    place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = ConnectionPool(place.app_dsn)
    with closing(Database(pool, role=place.server.role)) as database:
        async with database.org_transaction(LOCAL_ORG):
            assert not pool.is_stuck()
            monkeypatch.setattr(connection_pool, "MAX_HOLD_SECONDS", -1.0)
            assert pool.is_stuck()
        assert not pool.is_stuck()


async def test_call_on_unreachable_database_succeeds_once_database_is_reachable(
    place: ServerDatabase,
) -> None:
    with fault_link(place.app_dsn) as (link, dsn):
        target, link.target = link.target, "/nowhere"
        with closing(Database(ConnectionPool(dsn), role=place.server.role)) as database:
            calling = asyncio.create_task(call(database))
            while not link.refused:  # noqa: ASYNC110 - counted by a thread
                await asyncio.sleep(0.01)
            link.target = target
            assert await calling


async def test_waiting_call_reuses_connection_if_a_new_connection_is_refused(
    linked: tuple[FaultLink, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the waiting call tries to open a connection, another call releases its connection."""
    _, database = linked
    connecting, refused = asyncio.Event(), asyncio.Event()

    async def refuse(*_: object, **__: object) -> NoReturn:
        connecting.set()
        await refused.wait()
        raise psycopg.OperationalError("FATAL:  sorry, too many clients already")

    async with database.org_transaction(LOCAL_ORG) as tx:
        await tx.send(SELECT_1())
        monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)
        waiting = asyncio.create_task(call(database))
        await connecting.wait()
    refused.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await waiting
