"""Cached API tokens: calls need no token lookup, and a change of a token affects the next call."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from auth_env import another_token, at, bearer, make_token, open_visitor
from database_fixtures import ON_POSTGRES_18
from grouped_calls import busy_org
from org_env import Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from transport.messages import LEGACY
from waybook.accounts.model import hash_token
from waybook.app.accounts.authentication import TokenCache, authenticate_token
from waybook.app.accounts.members import (
    IssuedToken,
    change_scopes,
    disable_user,
    list_members,
    revoke_token,
)
from waybook.core.decision_context import Channel, Scope
from waybook.errors import StaleCredential, Unauthenticated
from waybook.store.driver.database import CURRENT_CHECK
from waybook.store.driver.group_commit import MAX_CALLS

pytestmark = ON_POSTGRES_18

#: Function that makes a token invalid.
Ending = Callable[[OrgEnv, IssuedToken], Awaitable[object]]


async def revoke(world: OrgEnv, issued: IssuedToken) -> None:
    await revoke_token(at(world.agent), issued.token.id)


async def revoke_elsewhere(world: OrgEnv, issued: IssuedToken) -> None:
    await revoke_token(at(world.agent.elsewhere()), issued.token.id)


async def disable(world: OrgEnv, _: IssuedToken) -> None:
    await disable_user(at(world.agent), "ann")


ENDINGS: dict[str, Ending] = {
    "revoked": revoke,
    "revoked by another process": revoke_elsewhere,
    "of a disabled user": disable,
}


@pytest.fixture
def lookups(world: OrgEnv, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list with the hash of each secret that is looked up in the database from now on."""
    hashes: list[bytes] = []
    read = world.database.read_by_secret

    async def recorded(secret_hash: bytes, *statements: Any, **named: Any) -> Any:  # noqa: ANN401 - any type
        hashes.append(secret_hash)
        return await read(secret_hash, *statements, **named)

    monkeypatch.setattr(world.database, "read_by_secret", recorded)
    return hashes


async def post(
    client: httpx2.AsyncClient, issued: IssuedToken, body: object, path: str = "/mcp"
) -> httpx2.Response:
    headers = {**LEGACY, **bearer(issued)}
    return await client.post(path, headers=headers, content=json.dumps(body))


async def call(
    client: httpx2.AsyncClient, issued: IssuedToken, tool: str, **arguments: object
) -> httpx2.Response:
    return await post(client, issued, _message(tool, **arguments))


async def called(
    client: httpx2.AsyncClient, issued: IssuedToken, tool: str, **arguments: object
) -> Body:
    reply = await call(client, issued, tool, **arguments)
    assert reply.status_code == 200, reply.text
    result: dict[str, Any] = reply.json()["result"]
    return dict(json.loads(result["content"][0]["text"]))


PLAN: Body = {
    "name": "Tides",
    "researchQuestion": "Why two a day?",
    "steps": [{"stepType": "search", "instructions": "Find out."}] * 3,
}


async def test_calls_with_a_cached_token_cause_no_token_lookup(
    world: OrgEnv, lookups: list[bytes]
) -> None:
    issued = await make_token(world.agent)
    async with open_visitor(world) as client:
        plan = await called(client, issued, "create_research_plan", **PLAN)
        assert lookups == [hash_token(issued.secret)]
        step = await called(client, issued, "get_next_step", planId=plan["planId"])
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        done = await called(client, issued, "submit_step_result", **held, resultSummary="Moon.")
        status = await called(client, issued, "get_plan_status", planId=plan["planId"])
    assert "error" not in done
    assert status["progress"] == 33
    assert len(lookups) == 1


async def test_invalid_call_with_cached_token_looks_up_the_token_again(
    world: OrgEnv, lookups: list[bytes]
) -> None:
    issued = await make_token(world.agent)
    async with open_visitor(world) as client:
        await called(client, issued, "list_active_plans")
        error = await called(client, issued, "get_plan_status", planId=7)
        assert (error["error"]["code"], len(lookups)) == ("INVALID_INPUT", 2)
        invalid = await post(client, issued, [])
    assert (invalid.status_code, len(lookups)) == (400, 3)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_call_with_cached_token_that_became_invalid_changes_nothing(
    world: OrgEnv, ending: str
) -> None:
    issued = await make_token(world.agent)
    async with open_visitor(world) as client:
        plan = await called(client, issued, "create_research_plan", **PLAN)
        step = await called(client, issued, "get_next_step", planId=plan["planId"])
        before = await world.entries(world.agent.org_id, str(plan["planId"]))
        await ENDINGS[ending](world, issued)
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        replies = [
            await call(client, issued, "submit_step_result", **held, resultSummary="Moon."),
            await call(client, issued, "submit_step_result", **held, resultSummary="Moon."),
        ]
    assert {reply.status_code for reply in replies} == {401}
    assert replies[0].content == replies[1].content
    assert "invalid_token" in replies[0].headers["www-authenticate"]
    assert await world.entries(world.agent.org_id, str(plan["planId"])) == before


REQUESTS: dict[str, Callable[[str], object]] = {
    "read": lambda plan: _message("get_plan_status", planId=plan),
    "read of an unknown plan": lambda _: _message("get_plan_status", planId="zzzzzzzzzz"),
    "list": lambda _: _message("list_active_plans"),
    "write": lambda _: _message("create_research_plan", **PLAN),
    "invalid arguments": lambda _: _message("get_plan_status", planId=7),
    "unknown tool": lambda _: _message("fly"),
    "other method": lambda _: {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    "no message": lambda _: [],
}


def _message(tool: str, **arguments: object) -> Body:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_every_request_with_revoked_cached_token_gets_same_401_response(
    world: OrgEnv, request_name: str
) -> None:
    issued = await make_token(world.agent)
    async with open_visitor(world) as client:
        plan = await called(client, issued, "create_research_plan", **PLAN)
        await revoke(world, issued)
        body = REQUESTS[request_name](str(plan["planId"]))
        first, second = [await post(client, issued, body, path) for path in ("/mcp", "/mcp/")]
    assert (first.status_code, second.status_code) == (401, 401)
    assert first.content == second.content
    assert dict(first.headers) == dict(second.headers)


async def test_expired_cached_token_is_refused(world: OrgEnv) -> None:
    await make_token(world.agent)
    issued = await another_token(world.agent, days=1)
    world.clock.advance(days=1, seconds=-30)
    async with open_visitor(world) as client:
        await called(client, issued, "list_active_plans")
        world.clock.advance(seconds=29)
        assert (await call(client, issued, "list_active_plans")).status_code == 200
        world.clock.advance(seconds=1)
        assert (await call(client, issued, "list_active_plans")).status_code == 401


async def test_changed_scopes_apply_to_next_call_of_cached_token(
    world: OrgEnv, lookups: list[bytes]
) -> None:
    issued = await make_token(world.agent)
    async with open_visitor(world) as client:
        await called(client, issued, "create_research_plan", **PLAN)
        await change_scopes(at(world.agent), "ann", (Scope.PLAN_READ,))
        refused = await called(client, issued, "create_research_plan", **PLAN)
        assert refused["error"]["code"] == "FORBIDDEN"
        await change_scopes(at(world.agent), "ann", (Scope.ADMIN,))
        lookups.clear()
        created = await called(client, issued, "create_research_plan", **PLAN)
        again = await called(client, issued, "list_active_plans")
    assert "planId" in created
    assert len(lookups) == 1
    assert len(again["plans"]) == 2


async def test_last_use_of_a_cached_token_is_recorded_once_a_minute(
    world: OrgEnv, lookups: list[bytes]
) -> None:
    services, issued = world.dispatcher.services, await make_token(world.agent)

    async def last_used() -> object:
        await services.last_used.flush(services.database)
        return (await list_members(at(world.agent))).tokens[0].last_used_at

    async with open_visitor(world) as client:
        first = world.clock.now
        await called(client, issued, "list_active_plans")
        assert await last_used() == first
        world.clock.advance(seconds=59)
        await called(client, issued, "list_active_plans")
        assert (await last_used(), len(lookups)) == (first, 1)
        world.clock.advance(seconds=2)
        await called(client, issued, "list_active_plans")
        assert (await last_used(), len(lookups)) == (first + timedelta(seconds=61), 2)


async def test_transaction_raises_stale_credential_if_cached_token_was_revoked(
    world: OrgEnv,
) -> None:
    services, issued = world.dispatcher.services, await make_token(world.agent)
    tokens = TokenCache(world.database.now)
    await authenticate_token(services, issued.secret, Channel.MCP, tokens)
    cached = tokens.get(issued.secret, Channel.MCP)
    assert cached is not None
    current = CURRENT_CHECK.set(cached.check)
    try:
        with pytest.raises(RuntimeError, match="another org"):
            await world.database.read_org(world.other_org.org_id, "select 1")
    finally:
        CURRENT_CHECK.reset(current)
    await revoke(world, issued)
    current = CURRENT_CHECK.set(cached.check)
    try:
        with pytest.raises(StaleCredential):
            await world.database.read_org(world.agent.org_id, "select 1")
        with pytest.raises(StaleCredential):
            world.database.org_transaction(world.agent.org_id)
        with pytest.raises(StaleCredential):
            await world.dispatcher.dispatch(cached.caller, "list_active_plans", {})
    finally:
        CURRENT_CHECK.reset(current)
    with pytest.raises(Unauthenticated):
        await authenticate_token(services, issued.secret, Channel.MCP, tokens)
    assert tokens.get(issued.secret, Channel.MCP) is None


async def test_number_of_cached_tokens_is_limited(world: OrgEnv) -> None:
    services, first = world.dispatcher.services, await make_token(world.agent)
    tokens = TokenCache(world.database.now, most=1)
    for issued in (first, second := await another_token(world.agent)):
        await authenticate_token(services, issued.secret, Channel.MCP, tokens)
    assert tokens.get(first.secret, Channel.MCP) is None
    assert tokens.get(second.secret, Channel.MCP) is not None
    assert tokens.get(second.secret, Channel.REST) is None


async def test_step_result_sent_with_revoked_token_is_not_in_the_group_commit(
    world: OrgEnv,
) -> None:
    await make_token(world.agent)
    tokens = [await another_token(world.agent) for _ in range(MAX_CALLS)]
    async with open_visitor(world) as client:
        steps = []
        for issued in tokens:
            plan = await called(client, issued, "create_research_plan", **PLAN)
            steps.append(await called(client, issued, "get_next_step", planId=plan["planId"]))
        await revoke_elsewhere(world, tokens[1])
        async with busy_org(world.database, world.agent.org_id, len(tokens)):
            tasks = [
                asyncio.create_task(
                    call(
                        client,
                        issued,
                        "submit_step_result",
                        stepId=step["stepId"],
                        attempt=step["attempt"],
                        resultSummary="Moon.",
                    )
                )
                for issued, step in zip(tokens, steps, strict=True)
            ]
        replies = await asyncio.gather(*tasks)
        assert [reply.status_code for reply in replies] == [200, 401, 200, 200]
        statuses = [
            await called(client, tokens[0], "get_plan_status", planId=step["planId"])
            for step in steps
        ]
    assert [status["counts"]["done"] for status in statuses] == [1, 0, 1, 1]


async def submit_job(
    client: httpx2.AsyncClient, issued: IssuedToken, job: Body, session: str
) -> httpx2.Response:
    held = {"jobId": job["jobId"], "attempt": job["attempt"], "sessionId": session}
    return await call(
        client, issued, "submit_job_result", **held, documents=[{"content": "# Found"}]
    )


async def test_job_result_sent_with_revoked_token_is_not_in_the_group_commit(
    world: OrgEnv,
) -> None:
    await make_token(world.agent)
    tokens = [await another_token(world.agent) for _ in range(4)]
    stage = make_stage("one", make_recipe_step("one"), make_recipe_step("two"))
    await world.agent.call("add_dag", definition=make_definition("wide", stage))
    run = await world.agent.run("wide", "abcdefgh")
    async with open_visitor(world) as client:
        jobs = [
            await called(client, issued, "get_next_job", runId=run["runId"], sessionId=f"s{n}")
            for n, issued in enumerate(tokens)
        ]
        await revoke_elsewhere(world, tokens[2])
        # While the connection is busy with the first call, the others wait, so they are sent as one
        # group.
        async with busy_org(world.database, world.agent.org_id, 1):
            tasks = [
                asyncio.create_task(submit_job(client, issued, job, f"s{n}"))
                for n, (issued, job) in enumerate(zip(tokens, jobs, strict=True))
            ]
        replies = await asyncio.gather(*tasks)
    assert [reply.status_code for reply in replies] == [200, 200, 401, 200]
    completed = "select count(*) from job where completed_at is not null"
    assert await world.database.read_org(world.agent.org_id, completed) == [[(3,)]]
