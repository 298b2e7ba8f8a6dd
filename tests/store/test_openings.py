"""Transactions of every kind, which all run with the database role of the server."""

from collections.abc import Awaitable, Callable

import pytest

from org_env import OrgEnv
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database
from waybook.store.maintenance.migrate import APP_ROLE

WHO = "select current_user, current_setting('app.org_id', true)"
#: Database methods that read data without an org, each with the name of its test case.
LOOKS: dict[str, Callable[[Database], Awaitable[Results]]] = {
    "by a secret": lambda database: database.read_by_secret(bytes(32), WHO),
    "by a slug": lambda database: database.read_by_slug("acme", WHO),
    "at the directory": lambda database: database.read_directory(WHO),
    "beside": lambda database: database.read_global(WHO),
}


async def test_transaction_of_an_org_sets_server_database_role_and_current_org(
    world: OrgEnv,
) -> None:
    database, org_id = world.database, world.agent.org_id
    async with database.org_transaction(org_id) as tx:
        ((row,),) = await tx.commit(WHO)
    assert row == (APP_ROLE, str(org_id))
    ((row,),) = await database.read_org(org_id, WHO)
    assert row == (APP_ROLE, str(org_id))


@pytest.mark.parametrize("look", LOOKS)
async def test_query_without_an_org_sets_only_the_server_database_role(
    world: OrgEnv, look: str
) -> None:
    # Read as an org first, so that the next read uses a connection on which an org was set.
    await world.database.read_org(world.agent.org_id, WHO)
    ((row,),) = await LOOKS[look](world.database)
    assert (row[0], row[1] or None) == (APP_ROLE, None)
