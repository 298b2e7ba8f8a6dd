"""API tokens in real MCP clients, and web sessions that were started with a token."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from auth_env import another_token, at, bearer, make_token, open_visitor, served
from org_env import AgentClient, Body, OrgEnv
from patience import PATIENCE_SECONDS
from transport.page_client import FORM_TOKEN, Browser, visible_text
from waybook.app.accounts.authentication import authenticate_token
from waybook.app.accounts.members import IssuedToken, change_org, disable_user, revoke_token
from waybook.core.decision_context import Channel, ReviewPolicy, Scope
from waybook.transport.http.dashboard import live
from waybook.transport.mcp import subscriptions

Era = Literal["legacy", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
PLAN: Body = {
    "name": "Tides",
    "researchQuestion": "Why two a day?",
    "steps": [{"stepType": "search", "instructions": "Find out."}],
}


@asynccontextmanager
async def open_client(
    address: str, issued: IssuedToken | None, era: Era = "2026-07-28"
) -> AsyncIterator[Client]:
    headers = bearer(issued) if issued else {}
    async with httpx2.AsyncClient(
        headers=headers, trust_env=False, timeout=PATIENCE_SECONDS
    ) as http:
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


async def called(client: Client, tool: str, **arguments: object) -> Body:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    content: Any = result.structured_content
    return dict(content)


async def refused(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    block: Any = result.content[0]
    return str(block.text)


@BOTH_ERAS
async def test_client_with_a_token_sees_only_plans_of_own_org(world: OrgEnv, era: Era) -> None:
    ours, theirs = await make_token(world.agent), await make_token(world.other_org, "ned")
    async with (
        served(world) as address,
        open_client(address, ours, era) as ann,
        open_client(address, theirs, era) as ned,
    ):
        plan = await called(ann, "create_research_plan", **PLAN)
        assert "NOT_FOUND" in await refused(ned, "get_plan_status", planId=plan["planId"])
        mine = await called(ann, "list_active_plans")
        other = await called(ned, "list_active_plans")
    assert [item["planId"] for item in mine["plans"]] == [plan["planId"]]
    assert [item["planId"] for item in other["plans"]] == [world.other_org_plan["planId"]]
    entry = (await world.entries(world.agent.org_id, plan["planId"]))[0]
    assert (entry.actor, entry.channel) == ("ann", "mcp")


async def test_token_that_requested_a_review_cannot_decide_the_review(world: OrgEnv) -> None:
    await change_org(at(world.agent), policy=ReviewPolicy.HUMAN)
    agents = await make_token(
        world.agent, scopes=(Scope.PLAN_WRITE, Scope.REVIEW), may=(Scope.ADMIN,)
    )
    anns = await another_token(world.agent, scopes=(Scope.REVIEW,))
    works = await another_token(world.agent)
    async with (
        served(world) as address,
        open_client(address, agents) as agent,
        open_client(address, works) as worker,
        open_client(address, anns) as ann,
    ):
        plan = await called(agent, "create_research_plan", **PLAN)
        step = await called(agent, "get_next_step", planId=plan["planId"])
        await called(agent, "request_user_review", stepId=step["stepId"], summary="Good?")
        args = {"planId": plan["planId"], "decision": "approve"}
        assert "FORBIDDEN" in await refused(agent, "submit_user_decision", **args)
        assert "FORBIDDEN" in await refused(worker, "submit_user_decision", **args)
        assert (await called(ann, "submit_user_decision", **args))["decision"] == "approve"


async def test_subscription_ends_when_the_user_is_disabled(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "REAUTH_SECONDS", 0.01)
    issued = await make_token(world.agent)
    async with (
        served(world) as address,
        open_client(address, issued) as client,
        client.listen(resources_list_changed=True) as subscription,
    ):
        await world.agent.plan(1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await anext(subscription)
            await disable_user(at(world.agent), "ann")
            # This reads events until the server ends the stream.
            rest = [event async for event in subscription]
    assert len(rest) <= 1


# Tests of web sessions.


REVIEW = re.compile(r'name="reviewId" value="([^"]+)"')


async def sign_in(browser: Browser, issued: IssuedToken) -> None:
    form = FORM_TOKEN.search((await browser.get("/sign-in")).text)
    assert form
    done = await browser.post("/sign-in", data={"token": form[1], "key": issued.secret})
    assert done.status_code == 303


@asynccontextmanager
async def signed_in(world: OrgEnv, issued: IssuedToken) -> AsyncIterator[httpx2.AsyncClient]:
    async with open_visitor(world) as browser:
        await sign_in(browser, issued)
        yield browser


async def plan_with_review(world: OrgEnv, issued: IssuedToken) -> Body:
    agent = AgentClient(
        world.dispatcher,
        await authenticate_token(world.dispatcher.services, issued.secret, Channel.MCP),
    )
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    await agent.review(taken, summary="Good?")
    return plan


async def decided(browser: Browser, plan: Body) -> httpx2.Response:
    shown = (await browser.get(f"/plans/{plan['planId']}")).text
    form, review = FORM_TOKEN.search(shown), REVIEW.search(shown)
    assert form
    assert review
    fields = {"token": form[1], "planId": plan["planId"], "reviewId": review[1]}
    return await browser.post("/decisions", data={**fields, "decision": "approve"})


async def test_web_session_cannot_approve_reviews_requested_with_the_same_token(
    world: OrgEnv,
) -> None:
    await change_org(at(world.agent), policy=ReviewPolicy.HUMAN)
    both = (Scope.PLAN_WRITE, Scope.REVIEW)
    agents = await make_token(world.agent, scopes=both)
    persons = await another_token(world.agent, scopes=both)
    plan = await plan_with_review(world, agents)
    async with signed_in(world, agents) as browser:
        refused = await decided(browser, plan)
    assert refused.status_code in {400, 403}
    assert "the requester of a review cannot decide it" in visible_text(refused.text)
    assert (await world.agent.status(plan))["status"] == "awaiting_review"
    async with signed_in(world, persons) as browser:
        assert (await decided(browser, plan)).status_code == 303
    assert (await world.agent.status(plan))["status"] == "completed"


async def test_live_stream_ends_after_token_is_revoked(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "REAUTH_SECONDS", 0.0)
    issued = await make_token(world.agent)
    async with (
        served(world) as address,
        httpx2.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE_SECONDS) as browser,
    ):
        await sign_in(browser, issued)
        async with asyncio.timeout(PATIENCE_SECONDS), browser.stream("GET", "/live") as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("id: ")
            await world.agent.plan(1)
            heard = [await anext(lines) for _ in range(4)]
            assert any("plan:" in line for line in heard)
            await revoke_token(at(world.agent), issued.token.id)
            later = await world.agent.plan(1)
            # This reads lines until the server ends the stream.
            rest = [line async for line in lines]
            assert not any(later["planId"] in line for line in rest)
        assert (await browser.get("/live")).status_code in {303, 401}
