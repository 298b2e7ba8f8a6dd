"""Real MCP clients with API tokens: access ends with the token's org and lifetime."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from auth_env import another_token, at, bearer, make_token, served
from database_fixtures import ON_POSTGRES_18
from org_env import Body, OrgEnv
from patience import PATIENCE_SECONDS
from waybook.app.accounts.members import IssuedToken, change_org, disable_user
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.transport.mcp import subscriptions

pytestmark = ON_POSTGRES_18

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
            # The comprehension reads events until the stream ends.
            rest = [event async for event in subscription]
    assert len(rest) <= 1
