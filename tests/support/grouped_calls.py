"""Helpers that make the database driver send several calls to the database as one group."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from patience import PATIENCE_SECONDS
from waybook.store.driver.database import Database
from waybook.store.driver.group_commit import MAX_IN_FLIGHT, Call

BLOCKING_MESSAGES = 1 + MAX_IN_FLIGHT


def no_effect() -> None:
    """Do nothing; for calls that need no function to run after their commit."""


@asynccontextmanager
async def busy_org(database: Database, org_id: UUID, waiting: int) -> AsyncIterator[None]:
    """Keep as many calls of an org in progress as the driver allows, so that further calls wait.

    PostgreSQL answers them at the end of the block, as soon as `waiting` further calls wait. The
    driver then sends the waiting calls as one group.
    """
    key = org_id.int % 2**62
    block = [f"select pg_advisory_xact_lock_shared({key})"]
    async with database.org_transaction(org_id) as tx:
        await tx.send(f"select pg_advisory_xact_lock({key})")
        calls = [Call(org_id, f"block {n}", block, no_effect) for n in range(MAX_IN_FLIGHT)]
        blocking = [asyncio.create_task(database.commit(call)) for call in calls]
        await asyncio.sleep(0)
        yield
        async with asyncio.timeout(PATIENCE_SECONDS):
            await _until_waiting(database, org_id, waiting)
    await asyncio.gather(*blocking)


async def _until_waiting(database: Database, org_id: UUID, count: int) -> None:
    while True:
        if len(database._groups._orgs[org_id].waiting) == count:
            return
        await asyncio.sleep(0)
