"""Web sessions: how long they last, and events that end them immediately."""

from collections.abc import AsyncIterator
from hashlib import sha256

import pytest

from auth_env import at, leaks, make_token
from org_env import OrgEnv
from sign_in_env import make_team
from waybook.accounts.model import hash_token
from waybook.app.accounts.authentication import (
    authenticate_session,
    end_session,
    start_by_issuer,
    start_by_token,
)
from waybook.app.accounts.members import IssuedToken, change_scopes, disable_user, revoke_token
from waybook.core.decision_context import Scope, expand_scopes
from waybook.core.org_codes import without_org
from waybook.errors import Unauthenticated

CLAIMS = {"sub": "ann-1", "exp": 4_000_000_000}


@pytest.fixture
async def issued(world: OrgEnv) -> IssuedToken:
    return await make_token(world.agent, scopes=(Scope.PLAN_WRITE,), days=30)


@pytest.fixture
async def secret(world: OrgEnv, issued: IssuedToken) -> str:
    return await start_by_token(world.dispatcher.services, issued.secret)


@pytest.fixture
async def persons(world: OrgEnv) -> AsyncIterator[str]:
    """Yield the web session secret of a user who signed in through an OpenID Connect issuer."""
    async with make_team(world) as team:
        assert team.issuer is not None
        claims = {**CLAIMS, "org": team.there.person["org"]}
        yield await start_by_issuer(world.dispatcher.services, team.issuer, claims)


async def counts(world: OrgEnv, secret: str) -> bool:
    try:
        await authenticate_session(world.dispatcher.services, secret)
    except Unauthenticated:
        return False
    return True


async def test_web_session_has_user_and_scopes_of_the_token(
    world: OrgEnv, issued: IssuedToken, secret: str
) -> None:
    caller, person = await authenticate_session(world.dispatcher.services, secret)
    assert caller.credential == f"token:{issued.token.id}"
    assert caller.scopes == expand_scopes([Scope.PLAN_WRITE])
    assert (caller.org_id, person.name) == (world.agent.org_id, "ann")


async def test_web_session_of_issuer_user_has_no_admin_scope(world: OrgEnv, persons: str) -> None:
    caller, person = await authenticate_session(world.dispatcher.services, persons)
    assert caller.credential == f"session:{person.session_id}"
    assert Scope.REVIEW in caller.scopes
    assert Scope.ADMIN not in caller.scopes


async def test_web_session_ends_after_eight_idle_hours(world: OrgEnv, secret: str) -> None:
    world.clock.advance(hours=7, minutes=59)
    assert await counts(world, secret)
    world.clock.advance(hours=7, minutes=59)
    assert await counts(world, secret)
    world.clock.advance(hours=8)
    assert not await counts(world, secret)


async def test_live_updates_of_a_page_do_not_extend_a_web_session(
    world: OrgEnv, secret: str
) -> None:
    for _ in range(2):
        world.clock.advance(hours=3)
        await authenticate_session(world.dispatcher.services, secret, notes=False)
    world.clock.advance(hours=2)
    assert not await counts(world, secret)


async def test_web_session_expires_after_seven_days_despite_activity(
    world: OrgEnv, secret: str
) -> None:
    for _ in range(7 * 4 - 1):
        world.clock.advance(hours=6)
        assert await counts(world, secret)
    world.clock.advance(hours=6)
    assert not await counts(world, secret)


async def test_revoking_a_token_ends_web_sessions_of_the_token(
    world: OrgEnv, issued: IssuedToken, secret: str
) -> None:
    await revoke_token(at(world.agent), issued.token.id)
    assert not await counts(world, secret)


async def test_expired_token_ends_web_sessions_of_the_token(world: OrgEnv) -> None:
    short = await make_token(world.agent, "dan", days=1)
    started = await start_by_token(world.dispatcher.services, short.secret)
    for _ in range(4):
        assert await counts(world, started)
        world.clock.advance(hours=6)
    assert not await counts(world, started)


async def test_disabling_a_user_ends_only_web_sessions_of_that_user(
    world: OrgEnv, secret: str, persons: str
) -> None:
    await disable_user(at(world.agent), "ann")
    assert not await counts(world, secret)
    assert await counts(world, persons)
    await disable_user(at(world.agent), "ann-1")
    assert not await counts(world, persons)


async def test_changed_scopes_apply_immediately_to_web_sessions(
    world: OrgEnv, secret: str, persons: str
) -> None:
    services = world.dispatcher.services
    for user, browser, most in (("ann", secret, {Scope.PLAN_WRITE}), ("ann-1", persons, {*Scope})):
        for scope in (Scope.PLAN_READ, Scope.REVIEW, Scope.ADMIN):
            await change_scopes(at(world.agent), user, (scope,))
            caller, _ = await authenticate_session(services, browser)
            assert caller.scopes == expand_scopes([scope]) & expand_scopes(most)


async def test_ending_a_web_session_leaves_other_sessions_of_user_valid(
    world: OrgEnv, issued: IssuedToken, secret: str
) -> None:
    other = await start_by_token(world.dispatcher.services, issued.secret)
    await end_session(world.dispatcher.services, secret)
    await end_session(world.dispatcher.services, secret)
    assert not await counts(world, secret)
    assert await counts(world, other)


async def test_web_session_secret_is_stored_only_as_hash(world: OrgEnv, secret: str) -> None:
    (rows,) = await world.database.read_org(
        world.agent.org_id, "select hash, s::text from web_session s"
    )
    expected = sha256(without_org(secret).encode()).digest()
    assert [stored_hash for stored_hash, _ in rows] == [expected]
    assert not leaks(rows[0][1], secret)


async def test_web_session_with_invalid_secret_is_rejected(world: OrgEnv, secret: str) -> None:
    for made_up in ("", "x", 43 * "x", 43 * "é", 44 * "x"):
        assert not await counts(world, made_up)
    assert not await counts(world, hash_token(secret).hex()[:43])
    assert await counts(world, secret)
