"""Identity from an issuer: a user of one org, with limited scopes."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from sign_in_worlds import Team, a_team, slug_of
from trust_worlds import at
from waybook.accounts.manage import NewUser
from waybook.accounts.model import User
from waybook.app.accounts.authentication import authenticate_bearer, find_or_create_member
from waybook.app.accounts.members import add_user, disable_user
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel, Scope, expand_scopes
from waybook.errors import Forbidden, Unauthenticated
from waybook.store.accounts import accounts
from worlds import World

#: Scopes of a new user.
NEW = expand_scopes([Scope.PLAN_READ, Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW])


@pytest.fixture
async def team(world: World) -> AsyncIterator[Team]:
    async with a_team(world) as made:
        yield made


async def caller(team: Team, text: str | None = None) -> Caller:
    shown = team.there.token() if text is None else text
    return await authenticate_bearer(team.world.doorway.house, team.issuer, shown, Channel.MCP)


async def users(team: Team) -> list[User]:
    rows = await team.world.database.read_org(
        team.world.agent.org_id, accounts.SQL["users"](most=100)
    )
    return accounts.read_users(rows[0])


async def test_somebody_new_becomes_a_user_once_with_an_entry_in_the_audit(team: Team) -> None:
    agent = team.world.agent
    team.there.person |= {"email": "ann@example.org", "email_verified": True}
    first = await caller(team)
    assert (first.org_id, first.user) == (agent.org_id, "ann@example.org")
    assert await caller(team) == first
    (ann,) = await users(team)
    assert first.credential == f"client:agent:{ann.id}"
    assert (ann.issuer, ann.subject, ann.created_by) == (team.there.url, "ann-1", "sign-in")
    entries = await team.world.entries(agent.org_id, str(agent.org_id))
    told = [json.loads(entry.details)["action"] for entry in entries]
    assert told == ["org_recorded", "user_added"]


async def test_twenty_at_once_become_one_user(team: Team) -> None:
    found = await asyncio.gather(*(caller(team) for _ in range(20)))
    assert len(set(found)) == 1
    assert len(await users(team)) == 1


async def test_a_name_that_is_taken_is_made_longer_and_nobody_is_taken_for_another(
    team: Team,
) -> None:
    """A user called `ann` at the issuer is not the existing Ann."""
    await add_user(at(team.world.agent), NewUser(name="ann-1", scopes=(Scope.ADMIN,)))
    somebody = await caller(team)
    assert somebody.user == "ann-1 (ann-1)"
    assert Scope.ADMIN not in somebody.scopes


async def test_what_one_may_is_what_both_token_and_user_may(team: Team) -> None:
    there = team.there
    assert (await caller(team)).scopes == expand_scopes([Scope.PLAN_WRITE])
    assert (await caller(team, there.token(scope="admin"))).scopes == NEW
    with pytest.raises(Forbidden) as refusal:
        await caller(team, there.token(scope="openid profile"))
    assert not isinstance(refusal.value, Unauthenticated)
    with pytest.raises(Forbidden):
        await caller(team, there.token(scope=None))


async def test_the_org_is_that_of_the_token_and_a_user_of_one_is_nobody_in_another(
    team: Team,
) -> None:
    team.world.neighbour_may_change = True
    await caller(team)
    theirs = slug_of(team.world.neighbour.org_id)
    other = await caller(team, team.there.token(org=theirs))
    assert other.org_id == team.world.neighbour.org_id
    await disable_user(at(team.world.agent), "ann-1")
    with pytest.raises(Unauthenticated):
        await caller(team)
    assert (await caller(team, team.there.token(org=theirs))).org_id == other.org_id


async def test_an_org_that_is_not_there_lets_nobody_in(team: Team) -> None:
    for org in (None, "nowhere", "", 7, ["acme"], "x'; select 1 --", "a\x00b"):
        with pytest.raises(Unauthenticated):
            await caller(team, team.there.token(org=org))
    assert await users(team) == []


async def test_where_nobody_new_may_come_only_those_come_who_were_let_in(world: World) -> None:
    async with a_team(world, oidc_new_users="deny") as team:
        with pytest.raises(Unauthenticated):
            await caller(team)
        assert await users(team) == []
        known = {"issuer": team.there.url, "subject": "ann-1"}
        await add_user(at(world.agent), NewUser(name="Ann", scopes=(Scope.REVIEW,), **known))
        assert (await caller(team, team.there.token(scope="admin"))).user == "Ann"
        with pytest.raises(Unauthenticated):
            await caller(team, team.there.token(sub="bob-2"))


async def test_the_databases_clock_says_when_a_token_has_expired(team: Team) -> None:
    text = team.there.token()
    await caller(team, text)
    team.world.clock.advance(minutes=7)
    with pytest.raises(Unauthenticated):
        await caller(team, text)


async def test_what_was_good_a_moment_ago_is_held_against_the_databases_clock_again(
    team: Team,
) -> None:
    services, issuer = team.world.doorway.house, team.issuer
    assert issuer is not None
    now, audience = team.world.clock.now, issuer.settings.audience
    claims = await issuer.claims(team.there.token(), audience=audience, now=now)
    await find_or_create_member(services, issuer, claims, Channel.MCP)
    team.world.clock.advance(minutes=7)
    with pytest.raises(Unauthenticated):
        await find_or_create_member(services, issuer, claims, Channel.MCP)


async def test_without_an_issuer_only_our_own_tokens_count(team: Team) -> None:
    with pytest.raises(Unauthenticated):
        await authenticate_bearer(team.world.doorway.house, None, team.there.token(), Channel.MCP)
