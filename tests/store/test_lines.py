"""Connection pool: fair waiting, reuse of connections, and rollback before each reuse."""

import asyncio
from contextlib import AsyncExitStack
from uuid import UUID

import pytest

from org_env import open_test_database
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from waybook.accounts.model import LOCAL_ORG
from waybook.errors import Busy, Unavailable
from waybook.store.driver.connection import StaleCache
from waybook.store.driver.database import Database, Transaction
from waybook.store.driver.pool import MAX_QUEUED
from waybook.store.driver.queries import Query

ECHO = Query("echo", "select %(text)s::text")


async def backend(tx: Transaction) -> int:
    """Return the process id of the database backend of this transaction."""
    ((row,),) = await tx.send("select pg_backend_pid()")
    return int(row[0])


async def used(database: Database) -> int:
    """Run a transaction; return the process id of its database backend."""
    async with database.org_transaction(LOCAL_ORG) as tx:
        return await backend(tx)


async def test_connection_is_reused_but_never_shared_between_open_transactions(
    own_place: ServerDatabase,
) -> None:
    async with open_test_database(own_place) as database:
        first = await used(database)
        assert await used(database) == first
        async with (
            database.org_transaction(LOCAL_ORG) as tx,
            database.org_transaction(LOCAL_ORG) as other,
        ):
            assert await backend(tx) != await backend(other)


async def test_uncommitted_transaction_is_rolled_back_before_connection_reuse(
    own_place: ServerDatabase,
) -> None:
    async with open_test_database(own_place, pool_size=1) as database:
        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.send("create temporary table left_behind (a int)")
        (rows,) = await database.read_org(LOCAL_ORG, "select to_regclass('left_behind')::text")
    assert rows == [(None,)]


async def test_database_connections_have_jit_turned_off(own_place: ServerDatabase) -> None:
    async with open_test_database(own_place) as database, database.org_transaction(LOCAL_ORG) as tx:
        assert await tx.send("show jit") == [[("off",)]]


async def test_exhausted_connection_pool_serves_waiting_calls_in_order(
    own_place: ServerDatabase,
) -> None:
    async with open_test_database(own_place, pool_size=1) as database:
        served: list[int] = []

        async def wait(number: int) -> None:
            async with database.org_transaction(LOCAL_ORG) as tx:
                await tx.send("select 1")
                served.append(number)

        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.send("select 1")
            waiting = [asyncio.create_task(wait(number)) for number in range(4)]
            await asyncio.sleep(0)
            waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert served == [0, 2, 3]
        await used(database)


async def test_many_calls_of_an_org_do_not_delay_other_orgs(own_place: ServerDatabase) -> None:
    async with open_test_database(own_place, pool_size=1) as database:
        served: list[str] = []

        async def call(org_id: UUID, name: str) -> None:
            async with database.org_transaction(org_id) as tx:
                await tx.send("select 1")
                served.append(name)

        async with database.org_transaction(LOCAL_ORG) as tx:
            await tx.send("select 1")
            flood = [asyncio.create_task(call(LOCAL_ORG, "flood")) for _ in range(50)]
            await asyncio.sleep(0)
            others = [asyncio.create_task(call(UUID(int=n), "other")) for n in (1, 2)]
            await asyncio.sleep(0)
            flood[3].cancel()
        await asyncio.gather(*flood, *others, return_exceptions=True)
        assert len(served) == 51
        assert sorted(served[:3]) == ["flood", "other", "other"]


async def test_org_with_long_transactions_leaves_connections_to_other_orgs(
    own_place: ServerDatabase,
) -> None:
    async with open_test_database(own_place, pool_size=4) as database:
        await used(database)
        async with database.org_transaction(UUID(int=1)) as other:
            await other.send("select 1")
        async with AsyncExitStack() as hanging:
            for _ in range(3):
                tx = await hanging.enter_async_context(database.org_transaction(LOCAL_ORG))
                await tx.send("select 1")
            fourth = asyncio.create_task(used(database))
            await asyncio.sleep(0)
            async with database.org_transaction(UUID(int=1)) as other:
                await other.send("select 1")
            assert not fourth.done()
        await fourth


async def test_org_with_too_many_queued_calls_gets_busy(own_place: ServerDatabase) -> None:
    async with open_test_database(own_place, pool_size=1) as database:
        async with database.org_transaction(LOCAL_ORG):
            waiting = [asyncio.create_task(used(database)) for _ in range(MAX_QUEUED)]
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="calls of your org wait for the database already"):
                await used(database)
            async with asyncio.timeout(PATIENCE_SECONDS):
                other = asyncio.create_task(database.read_org(UUID(int=1), "select 1"))
                await asyncio.sleep(0)
                assert not other.done()
        await asyncio.gather(*waiting, other)


async def test_waiting_too_long_for_a_database_connection_raises_unavailable(
    own_place: ServerDatabase,
) -> None:
    async with open_test_database(own_place, pool_size=1) as database:
        # Open the connection now, because this may take longer than the timeout below.
        await used(database)
        async with database.org_transaction(LOCAL_ORG):
            usual, database.pool.timeout = database.pool.timeout, 0.05
            with pytest.raises(Unavailable, match="cannot be reached right now"):
                await used(database)
        database.pool.timeout = usual
        await used(database)


async def test_database_returns_large_query_parameters_unchanged(own_place: ServerDatabase) -> None:
    text = "sixteen letters." * 500_000
    async with open_test_database(own_place) as database:
        results = await database.read_org(LOCAL_ORG, *(ECHO(text=text) for _ in range(4)))
        assert results == [[(text,)]] * 4
        await used(database)


async def test_failed_query_does_not_discard_earlier_prepared_statements(
    own_place: ServerDatabase,
) -> None:
    """If statements sent together raise `StaleCache`, those prepared earlier remain usable."""
    expect, count = (
        Query("expect", "select app_refuse_unless(%(is_met)s::boolean, 'WB001')"),
        "select count(*) from pg_prepared_statements",
    )
    async with open_test_database(own_place, pool_size=1) as database:
        with pytest.raises(StaleCache):
            await database.read_org(LOCAL_ORG, ECHO(text="a"), expect(is_met=False), ECHO(text="b"))
        ((none,),) = await database.read_org(LOCAL_ORG, count)
        assert (await database.read_org(LOCAL_ORG, ECHO(text="c"), expect(is_met=True)))[0] == [
            ("c",)
        ]
        ((before,),) = await database.read_org(LOCAL_ORG, count)
        with pytest.raises(StaleCache):
            await database.read_org(LOCAL_ORG, ECHO(text="d"), expect(is_met=False))
        ((after,),) = await database.read_org(LOCAL_ORG, count)
        assert none < before == after
        assert (await database.read_org(LOCAL_ORG, ECHO(text="e")))[0] == [("e",)]
