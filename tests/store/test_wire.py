"""Prepared SQL statements: prepared once, planned again regularly, and usable with a pooler."""

import pytest

from org_env import OrgEnv
from waybook.errors import Busy
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Query

SELECT_1 = Query("one", "select 1")
TWO = Query("two", "select 2")


async def forget(tx: Transaction) -> None:
    """Discard all prepared statements, as when a pooler changes to another server connection."""
    await tx.send("deallocate all")


async def test_sql_statement_sent_twice_is_prepared_once(own_world: OrgEnv) -> None:
    database = own_world.database
    async with database.org_transaction(own_world.agent.org_id) as tx:
        await tx.send(SELECT_1())
        await tx.send(SELECT_1())
        (names,) = await tx.commit(
            "select name from pg_prepared_statements where name ~ '^wb_one_'"
        )
    assert len(names) == 1


async def test_missing_prepared_statement_at_transaction_start_is_sent_as_text(
    own_world: OrgEnv,
) -> None:
    database = own_world.database
    for _ in range(database.pool.size):
        async with database.org_transaction(own_world.agent.org_id) as tx:
            await tx.send(SELECT_1())
            await forget(tx)
    results = await database.read_org(own_world.agent.org_id, SELECT_1())
    assert results == [[(1,)]]
    assert database.wire.pooled
    plan = await own_world.agent.plan(1)
    assert (await own_world.agent.work_through(plan))["status"] == "plan_complete"


async def test_missing_prepared_statement_later_in_transaction_raises_busy(
    own_world: OrgEnv,
) -> None:
    database = own_world.database
    async with database.org_transaction(own_world.agent.org_id) as tx:
        await tx.send(SELECT_1(), TWO())
        await forget(tx)
        with pytest.raises(Busy):
            await tx.commit(TWO())
    assert database.wire.pooled
