"""Callers with a token of an OpenID Connect issuer: their user, org and scopes."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from auth_env import at
from org_env import OrgEnv
from sign_in_env import Team, make_team, slug_of
from waybook.accounts.model import NewUser, User
from waybook.app.accounts.authentication import authenticate_bearer, find_or_create_member
from waybook.app.accounts.members import add_user, disable_user
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel, Scope, expand_scopes
from waybook.errors import Forbidden, Unauthenticated
from waybook.store.accounts import accounts

#: Scopes of a user who has just signed in for the first time.
NEW = expand_scopes([Scope.PLAN_READ, Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW])


@pytest.fixture
async def team(world: OrgEnv) -> AsyncIterator[Team]:
    async with make_team(world) as made:
        yield made


async def caller(team: Team, text: str | None = None) -> Caller:
    shown = team.there.token() if text is None else text
    return await authenticate_bearer(
        team.world.dispatcher.services, team.issuer, shown, Channel.MCP
    )


async def users(team: Team) -> list[User]:
    rows = await team.world.database.read_org(
        team.world.agent.org_id, accounts.SQL["users"](most=100)
    )
    return accounts.read_users(rows[0])


async def test_first_sign_in_creates_a_user_and_an_audit_entry(team: Team) -> None:
    agent = team.world.agent
    team.there.person |= {"email": "ann@example.org", "email_verified": True}
    first = await caller(team)
    assert (first.org_id, first.user) == (agent.org_id, "ann@example.org")
    assert await caller(team) == first
    (ann,) = await users(team)
    assert first.credential == f"client:agent:{ann.id}"
    assert (ann.issuer, ann.subject, ann.created_by) == (team.there.url, "ann-1", "sign-in")
    entries = await team.world.entries(agent.org_id, str(agent.org_id))
    actions = [json.loads(entry.details)["action"] for entry in entries]
    assert actions == ["org_recorded", "user_added"]


async def test_concurrent_first_calls_with_issuer_token_create_one_user(team: Team) -> None:
    callers = await asyncio.gather(*(caller(team) for _ in range(20)))
    assert len(set(callers)) == 1
    assert len(await users(team)) == 1


async def test_new_issuer_user_with_a_taken_name_gets_a_suffix(team: Team) -> None:
    await add_user(at(team.world.agent), NewUser(name="ann-1", scopes=(Scope.ADMIN,)))
    member = await caller(team)
    assert member.user == "ann-1 (ann-1)"
    assert Scope.ADMIN not in member.scopes


async def test_caller_scopes_are_intersection_of_token_and_user_scopes(team: Team) -> None:
    there = team.there
    assert (await caller(team)).scopes == expand_scopes([Scope.PLAN_WRITE])
    assert (await caller(team, there.token(scope="admin"))).scopes == NEW
    with pytest.raises(Forbidden) as refusal:
        await caller(team, there.token(scope="openid profile"))
    assert not isinstance(refusal.value, Unauthenticated)
    with pytest.raises(Forbidden):
        await caller(team, there.token(scope=None))


async def test_org_claim_of_issuer_token_determines_org_of_caller(team: Team) -> None:
    team.world.other_org_may_change = True
    await caller(team)
    theirs = slug_of(team.world.other_org.org_id)
    other = await caller(team, team.there.token(org=theirs))
    assert other.org_id == team.world.other_org.org_id
    await disable_user(at(team.world.agent), "ann-1")
    with pytest.raises(Unauthenticated):
        await caller(team)
    assert (await caller(team, team.there.token(org=theirs))).org_id == other.org_id


async def test_issuer_token_with_unknown_org_raises_unauthenticated(team: Team) -> None:
    for org in (None, "nowhere", "", 7, ["acme"], "x'; select 1 --", "a\x00b"):
        with pytest.raises(Unauthenticated):
            await caller(team, team.there.token(org=org))
    assert await users(team) == []


async def test_unknown_user_is_rejected_if_oidc_new_users_is_deny(world: OrgEnv) -> None:
    async with make_team(world, oidc_new_users="deny") as team:
        with pytest.raises(Unauthenticated):
            await caller(team)
        assert await users(team) == []
        known = {"issuer": team.there.url, "subject": "ann-1"}
        await add_user(at(world.agent), NewUser(name="Ann", scopes=(Scope.REVIEW,), **known))
        assert (await caller(team, team.there.token(scope="admin"))).user == "Ann"
        with pytest.raises(Unauthenticated):
            await caller(team, team.there.token(sub="bob-2"))


async def test_issuer_token_expiry_is_checked_against_database_clock(team: Team) -> None:
    text = team.there.token()
    await caller(team, text)
    team.world.clock.advance(minutes=7)
    with pytest.raises(Unauthenticated):
        await caller(team, text)


async def test_issuer_claims_expired_by_the_database_clock_are_rejected(team: Team) -> None:
    services, issuer = team.world.dispatcher.services, team.issuer
    assert issuer is not None
    now, audience = team.world.clock.now, issuer.settings.audience
    claims = await issuer.claims(team.there.token(), audience=audience, now=now)
    await find_or_create_member(services, issuer, claims, Channel.MCP)
    team.world.clock.advance(minutes=7)
    with pytest.raises(Unauthenticated):
        await find_or_create_member(services, issuer, claims, Channel.MCP)


async def test_issuer_token_is_rejected_when_no_issuer_is_configured(team: Team) -> None:
    with pytest.raises(Unauthenticated):
        await authenticate_bearer(
            team.world.dispatcher.services, None, team.there.token(), Channel.MCP
        )
