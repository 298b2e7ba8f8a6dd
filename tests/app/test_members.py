"""Users and tokens of an org: permissions, storage, and audit."""

import json
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from string import Template

import psycopg
import pytest

from auth_env import another_token, at, leaks, make_token
from org_env import OrgEnv, make_env
from postgres_servers import ServerDatabase
from waybook.accounts.model import NewUser
from waybook.app.accounts.authentication import authenticate_token
from waybook.app.accounts.members import (
    add_token,
    add_user,
    change_org,
    change_scopes,
    disable_user,
    enable_user,
    list_members,
    revoke_token,
)
from waybook.app.operations.audit_verification import AuditVerdict, audited_subjects, verify_subject
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel, ReviewPolicy, Scope, expand_scopes
from waybook.core.org_codes import without_org
from waybook.errors import Forbidden, InvalidInput, InvalidTransition, NotFound, Unauthenticated
from waybook.store.driver.queries import new_uuid


async def verdicts(world: OrgEnv) -> list[AuditVerdict]:
    call = at(world.agent)
    subjects = [item for item in await audited_subjects(call) if item.kind == "org"]
    return [await verify_subject(call, subject) for subject in subjects]


def tamper(world: OrgEnv, statement: str) -> None:
    """Change rows as a superuser of the database, with no audit entry for the change."""
    with psycopg.connect(world.place.admin_dsn) as admin:
        admin.execute(statement.encode(), {"org": world.agent.org_id})


async def test_caller_has_only_the_scopes_that_token_and_user_share(world: OrgEnv) -> None:
    issued = await make_token(world.agent, may=(Scope.PLAN_WRITE,), scopes=(Scope.PLAN_READ,))
    caller = await authenticate_token(world.dispatcher.services, issued.secret, Channel.REST)
    assert caller.org_id == world.agent.org_id
    assert (caller.user, caller.channel) == ("ann", Channel.REST)
    assert caller.scopes == {Scope.PLAN_READ}
    assert caller.principal == f"token:{issued.token.id}"


async def test_token_is_accepted_only_before_the_expiry(world: OrgEnv) -> None:
    services, issued = world.dispatcher.services, await make_token(world.agent, days=90)
    for_ever = await another_token(world.agent, days=None)
    world.clock.advance(days=90, seconds=-1)
    assert (await authenticate_token(services, issued.secret, Channel.MCP)).user == "ann"
    world.clock.advance(seconds=1)
    with pytest.raises(Unauthenticated):
        await authenticate_token(services, issued.secret, Channel.MCP)
    world.clock.advance(days=36_500)
    assert (await authenticate_token(services, for_ever.secret, Channel.MCP)).user == "ann"


async def test_revoked_token_is_rejected_immediately_in_every_process(world: OrgEnv) -> None:
    issued, remaining = await make_token(world.agent), await another_token(world.agent)
    elsewhere = world.agent.elsewhere().dispatcher.services
    await revoke_token(at(world.agent), issued.token.id)
    for services in (world.dispatcher.services, elsewhere):
        with pytest.raises(Unauthenticated):
            await authenticate_token(services, issued.secret, Channel.MCP)
        assert (await authenticate_token(services, remaining.secret, Channel.MCP)).user == "ann"
    with pytest.raises(InvalidTransition):
        await revoke_token(at(world.agent), issued.token.id)


async def test_token_of_disabled_user_is_rejected(world: OrgEnv) -> None:
    services, issued, other = (
        world.dispatcher.services,
        await make_token(world.agent),
        await another_token(world.agent),
    )
    await disable_user(at(world.agent), "ann")
    for token in (issued, other):
        with pytest.raises(Unauthenticated):
            await authenticate_token(services, token.secret, Channel.MCP)
    with pytest.raises(InvalidTransition):
        await another_token(world.agent)
    await enable_user(at(world.agent), "ann")
    assert (await authenticate_token(services, issued.secret, Channel.MCP)).user == "ann"


async def test_changed_scopes_apply_immediately_to_every_token_and_process(world: OrgEnv) -> None:
    wide = await make_token(world.agent, scopes=(Scope.PLAN_WRITE, Scope.REVIEW))
    narrow = await another_token(world.agent, scopes=(Scope.PLAN_READ,))
    theirs = await make_token(world.other_org, scopes=(Scope.PLAN_WRITE,))
    houses = (world.dispatcher.services, world.agent.elsewhere().dispatcher.services)

    async def may(secret: str) -> frozenset[Scope]:
        seen = {
            (await authenticate_token(services, secret, Channel.MCP)).scopes for services in houses
        }
        (scopes,) = seen
        return scopes

    for scopes, left in (
        ((Scope.PLAN_READ,), expand_scopes([Scope.PLAN_READ])),
        ((Scope.REVIEW, Scope.RUN_WRITE), expand_scopes([Scope.REVIEW])),
        ((Scope.ADMIN,), expand_scopes([Scope.PLAN_WRITE, Scope.REVIEW])),
    ):
        await change_scopes(at(world.agent), "ann", scopes)
        assert await may(wide.secret) == left
        assert await may(narrow.secret) == {Scope.PLAN_READ}
        assert await may(theirs.secret) == expand_scopes([Scope.PLAN_WRITE])


async def test_setting_the_same_scopes_again_writes_no_audit_entry(world: OrgEnv) -> None:
    await make_token(world.agent, may=(Scope.REVIEW,), scopes=(Scope.REVIEW,))
    before = len(await world.entries(world.agent.org_id, str(world.agent.org_id)))
    await change_scopes(at(world.agent), "ann", (Scope.REVIEW, Scope.REVIEW))
    assert len(await world.entries(world.agent.org_id, str(world.agent.org_id))) == before


async def test_token_secret_is_stored_only_as_hash(world: OrgEnv) -> None:
    issued = await make_token(world.agent)
    with psycopg.connect(world.place.admin_dsn) as admin:
        tables = admin.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace"
            " and relkind in ('r', 'p')"
        ).fetchall()
        for (table,) in tables:
            query = Template("select t::text from $table t").substitute(table=table)
            rows = admin.execute(query.encode()).fetchall()
            assert not any(leaks(row, issued.secret) for (row,) in rows), table
        stored = admin.execute(
            "select hash from api_token where id = %s", (issued.token.id,)
        ).fetchone()
    assert stored == (sha256(without_org(issued.secret).encode()).digest(),)


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.ADMIN])
async def test_managing_members_without_admin_scope_raises_forbidden(
    world: OrgEnv, scope: Scope
) -> None:
    issued = await make_token(world.agent)
    caller = replace(world.agent.caller, scopes=expand_scopes([scope]))
    call = RequestContext(services=world.dispatcher.services, caller=caller)
    for refused in (
        add_user(call, NewUser(name="eve", scopes=(scope,))),
        disable_user(call, "ann"),
        enable_user(call, "ann"),
        change_scopes(call, "ann", (Scope.ADMIN,)),
        add_token(call, "ann", "more"),
        revoke_token(call, issued.token.id),
        change_org(call, policy=ReviewPolicy.RELAYED),
        list_members(call),
    ):
        with pytest.raises(Forbidden) as error:
            await refused
        assert error.value.details["needed"] == ["admin"]
    assert (
        await authenticate_token(world.dispatcher.services, issued.secret, Channel.MCP)
    ).user == "ann"


async def test_members_of_another_org_cannot_be_listed_or_changed(world: OrgEnv) -> None:
    theirs = await make_token(world.other_org, "ned")
    await make_token(world.agent)
    mine = await list_members(at(world.agent))
    assert [user.name for user in mine.users] == ["ann"]
    assert [used.user for used in mine.tokens] == ["ann"]
    for refused in (
        revoke_token(at(world.agent), theirs.token.id),
        revoke_token(at(world.agent), new_uuid()),
        revoke_token(at(world.agent), "nonsense"),
        disable_user(at(world.agent), "ned"),
        change_scopes(at(world.agent), "ned", (Scope.PLAN_READ,)),
        add_token(at(world.agent), "ned", "x"),
    ):
        with pytest.raises(NotFound):
            await refused
    caller = await authenticate_token(world.dispatcher.services, theirs.secret, Channel.MCP)
    assert caller.org_id == world.other_org.org_id


async def test_user_names_are_unique_only_within_an_org(world: OrgEnv) -> None:
    await make_token(world.agent)
    await make_token(world.other_org)
    with pytest.raises(InvalidInput) as refused:
        await add_user(at(world.agent), NewUser(name="ann", scopes=(Scope.REVIEW,)))
    assert refused.value.details == {"argument": "name"}


async def test_org_audit_records_every_change_and_replays_to_same_rows(world: OrgEnv) -> None:
    issued = await make_token(world.agent)
    await change_org(at(world.agent), name="Acme", policy=ReviewPolicy.HUMAN)
    await revoke_token(at(world.agent), issued.token.id)
    await change_scopes(at(world.agent), "ann", (Scope.REVIEW, Scope.PLAN_READ))
    await disable_user(at(world.agent), "ann")
    entries = await world.entries(world.agent.org_id, str(world.agent.org_id))
    assert [json.loads(entry.details)["action"] for entry in entries] == [
        *("org_recorded", "user_added", "token_added"),
        *("org_changed", "token_revoked", "user_scopes_changed", "user_disabled"),
    ]
    assert {(entry.subject, entry.actor, entry.channel) for entry in entries} == {
        ("org", "ann", "mcp")
    }
    [verdict] = await verdicts(world)
    assert verdict.ok
    assert verdict.entries == 7


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("update api_token set scopes = '{admin}' where org_id = %(org)s", "scopes is"),
        ("update api_token set revoked_at = null where org_id = %(org)s", "revoked_at is"),
        ("update api_token set expires_at = null where org_id = %(org)s", "expires_at is"),
        ("update api_token set hash = sha256('mine') where org_id = %(org)s", "hash is"),
        ("update org_user set scopes = '{admin}' where org_id = %(org)s", "scopes is"),
        ("update org set review_policy = 'relayed' where org_id = %(org)s", "review_policy is"),
        ("delete from api_token where org_id = %(org)s", "it is not stored"),
        ("update org set audit_seq = 0 where org_id = %(org)s", "its seal is another"),
        (
            "delete from audit_entry where org_id = %(org)s and subject = 'org' and seq = 2",
            "entry 2 is missing",
        ),
    ],
    ids=str,
)
async def test_audit_verification_names_the_tampered_column(
    shared_place: ServerDatabase, statement: str, said: str
) -> None:
    errors: list[str] = []
    # `make_env` verifies the audit at the end; because of the changed rows, this fails.
    with pytest.raises(AssertionError):
        await _tampered(shared_place, statement, errors)
    assert said in " ".join(errors)


async def _tampered(place: ServerDatabase, statement: str, errors: list[str]) -> None:
    may = (Scope.PLAN_WRITE,)
    async with make_env(place) as world:
        issued = await make_token(world.agent, may=may, scopes=may)
        await change_org(at(world.agent), policy=ReviewPolicy.HUMAN)
        await revoke_token(at(world.agent), issued.token.id)
        tamper(world, statement)
        errors += [fault for verdict in await verdicts(world) for fault in verdict.errors]


async def test_token_last_use_is_recorded_at_most_once_a_minute(world: OrgEnv) -> None:
    services, issued = world.dispatcher.services, await make_token(world.agent)

    async def last_used() -> object:
        await services.last_used.flush(services.database)
        return (await list_members(at(world.agent))).tokens[0].last_used_at

    assert await last_used() is None
    first = world.clock.now
    await authenticate_token(services, issued.secret, Channel.MCP)
    assert await last_used() == first
    world.clock.advance(seconds=59)
    await authenticate_token(services, issued.secret, Channel.MCP)
    assert await last_used() == first
    world.clock.advance(seconds=2)
    await authenticate_token(services, issued.secret, Channel.MCP)
    assert await last_used() == first + timedelta(seconds=61)


async def test_org_without_changes_has_no_audit_chain(world: OrgEnv) -> None:
    assert await verdicts(world) == []
