"""Secrets of tokens, web sessions and links, which name their org by a code (decision 0093).

In a cluster, the server uses the code to find the node that stores the hash of the secret.
"""

from uuid import UUID

import pytest

from auth_env import make_token
from foreign_records import make_snapshot_link
from org_env import OrgEnv
from sign_in_env import make_team
from waybook.app.accounts.authentication import (
    LinkKind,
    authenticate_session,
    authenticate_token,
    find_link,
    start_by_issuer,
    start_by_token,
)
from waybook.core.decision_context import Channel
from waybook.core.org_codes import org_in, with_org, without_org
from waybook.errors import Unauthenticated
from waybook.store.driver.database import Database


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the application treat its database as a cluster."""

    async def yes(_: Database) -> bool:
        return True

    monkeypatch.setattr(Database, "is_cluster", yes)


@pytest.mark.usefixtures("cluster")
async def test_secrets_created_in_a_cluster_contain_the_org_code(world: OrgEnv) -> None:
    services, org_id = world.dispatcher.services, world.agent.org_id
    token = (await make_token(world.agent)).secret
    session = await start_by_token(services, token)
    _, link = await make_snapshot_link(world.agent)
    assert [*map(org_in, (token, session, link))] == [org_id, org_id, org_id]
    assert (await authenticate_token(services, token, Channel.MCP)).org_id == org_id
    assert (await authenticate_session(services, session))[0].org_id == org_id
    assert (await find_link(services, link, LinkKind.SNAPSHOT)).org_id == org_id


@pytest.mark.usefixtures("cluster")
async def test_user_of_an_issuer_can_sign_in_to_a_cluster(world: OrgEnv) -> None:
    async with make_team(world) as team:
        assert team.issuer is not None
        claims = {"sub": "ann-1", "exp": 4_000_000_000, "org": team.there.person["org"]}
        started = await start_by_issuer(world.dispatcher.services, team.issuer, claims)
    caller, _ = await authenticate_session(world.dispatcher.services, started)
    assert caller.org_id == world.agent.org_id == org_in(started)


async def test_secret_with_org_code_of_another_org_is_refused(world: OrgEnv) -> None:
    services = world.dispatcher.services
    token = without_org((await make_token(world.agent)).secret)
    session = without_org(await start_by_token(services, token))
    _, link = await make_snapshot_link(world.agent)
    for org_id in (world.other_org.org_id, UUID(int=7)):
        with pytest.raises(Unauthenticated):
            await authenticate_token(services, with_org(token, org_id), Channel.MCP)
        with pytest.raises(Unauthenticated):
            await authenticate_session(services, with_org(session, org_id))
        with pytest.raises(Unauthenticated):
            await find_link(services, with_org(without_org(link), org_id), LinkKind.SNAPSHOT)


async def test_secret_without_org_code_is_accepted(world: OrgEnv) -> None:
    """In a cluster, the server searches all nodes for a secret without an org code."""
    services, org_id = world.dispatcher.services, world.agent.org_id
    token = without_org((await make_token(world.agent)).secret)
    session = without_org(await start_by_token(services, token))
    assert (await authenticate_token(services, token, Channel.MCP)).org_id == org_id
    assert (await authenticate_session(services, session))[0].org_id == org_id
