"""A web session started with a token cannot decide reviews requested with that token."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from auth_env import another_token, at, make_token, open_visitor, served
from org_env import AgentClient, Body, OrgEnv
from patience import PATIENCE_SECONDS
from transport.page_client import FORM_TOKEN, visible_text
from waybook.app.accounts.lookup import authenticate_token
from waybook.app.accounts.members import IssuedToken, change_org, revoke_token
from waybook.core.decision_context import Channel, ReviewPolicy, Scope
from waybook.transport.http.dashboard import live

REVIEW = re.compile(r'name="reviewId" value="([^"]+)"')


async def sign_in(browser: httpx2.AsyncClient, issued: IssuedToken) -> None:
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
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Good?")
    return plan


async def decided(browser: httpx2.AsyncClient, plan: Body) -> httpx2.Response:
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
            # The comprehension reads events until the stream ends.
            rest = [line async for line in lines]
            assert not any(later["planId"] in line for line in rest)
        assert (await browser.get("/live")).status_code in {303, 401}
