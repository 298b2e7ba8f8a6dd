"""The page of a plan: its content, and its form."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from sent_messages import count_messages
from transport.page_client import send, visible_text


async def shown(browser: httpx2.AsyncClient, plan: Body, more: str = "") -> str:
    reply = await browser.get(f"/plans/{plan['planId']}{more}")
    assert reply.status_code == 200, reply.text
    return reply.text


async def test_plan_page_shows_progress_and_usage(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(3, name="Rivers <of> the north")
    await agent.submit(await agent.take(plan), usage={"inputTokens": 1200, "costUsd": 0.5})
    await agent.take(plan, sessionId="night")
    world.clock.advance(minutes=5)
    page = visible_text(await shown(browser, plan))
    assert "Rivers &lt;of&gt; the north" in page
    assert "1 of 3 done" in page
    assert "33 %" in page
    assert "completed 1" in page
    assert "in progress 1" in page
    assert "pending 1" in page
    assert "ann (night)" in page
    assert "1,200 tokens" in page
    assert "started step 2" in page
    assert "scope" not in page
    audit = await browser.get(f"/audit?subject={plan['planId']}")
    assert f"/audit?subject={plan['planId']}" in await shown(browser, plan)
    assert audit.status_code == 200


async def test_plan_page_advises_on_stalled_step_and_writes_nothing(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    await agent.take(plan)
    world.clock.advance(minutes=45)
    before = await world.entries(agent.org_id, plan["planId"])
    page = visible_text(await shown(browser, plan))
    assert "Step stalled" in page
    assert "no activity for 45 min" in page
    assert "limit 30 min" in page
    assert "retry" in page
    assert await world.entries(agent.org_id, plan["planId"]) == before


async def test_edit_page_form_adds_step(browser: httpx2.AsyncClient, agent: AgentClient) -> None:
    plan = await agent.plan(2)
    address = f"/plans/{plan['planId']}"
    named = {"action": "add_steps", "stepType": "analyze", "title": "Weigh"}
    typed = {**named, "instructions": "Weigh it.", "after": "1"}
    reply = await send(browser, f"{address}/edit", **typed, rationale="it is missing", revision="1")
    there = f"/plans/{plan['planId']}"
    assert (reply.status_code, reply.headers["location"]) == (303, there)
    page = visible_text(await shown(browser, plan))
    assert "Weigh" in page
    assert "added steps: it is missing" in page
    status = await agent.status(plan)
    assert [step.get("title") for step in status["pendingSteps"]] == [None, "Weigh", None]


async def test_edit_form_of_changed_plan_returns_409_and_preserves_input(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    named = {"action": "add_steps", "stepType": "critique"}
    typed = {**named, "instructions": "Weigh <it>.", "revision": "7"}
    reply = await send(browser, f"/plans/{plan['planId']}/edit", **typed, rationale="so that")
    assert reply.status_code == 409
    assert "STALE_PLAN" in reply.text
    assert "Weigh &lt;it&gt;.</textarea>" in reply.text
    assert "<option selected>critique</option>" in reply.text
    assert 'value="so that"' in reply.text
    assert 'name="revision" value="1"' in reply.text
    assert (await agent.status(plan))["totalSteps"] == 2


async def test_plan_page_query_count_is_independent_of_plan_size(
    browser: httpx2.AsyncClient, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = await agent.plan(1), await agent.plan(150)
    for _ in range(20):
        await agent.submit(await agent.take(large))
    sent = count_messages(monkeypatch)
    for plan in (small, large):
        for address in (
            f"/plans/{plan['planId']}",
            f"/plans/{plan['planId']}/steps/{plan['stepIds'][0]}",
        ):
            sent.clear()
            assert (await browser.get(address)).status_code == 200
            assert len(sent) == 3


async def test_page_of_a_large_plan_is_paginated(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(150)
    assert "Look up 100." in (first := await shown(browser, plan))
    assert 'id="s100"' in first
    assert 'id="s101"' not in first
    assert 'id="s101"' in await shown(browser, plan, "?page=2")
    assert 'id="s101"' in await shown(browser, plan, "?page=999999999999999999")
    assert 'id="s100"' in await shown(browser, plan, "?page=nonsense")
    part = await shown(browser, plan, "?part=whole&page=2")
    assert 'id="s101"' in part
    assert '<section id="plan" data-live="plan:' in part
    assert "<html" not in part
    step = (
        await browser.get(f"/plans/{plan['planId']}/steps/{plan['stepIds'][0]}?part=whole")
    ).text
    assert '<section id="step" data-live="plan:' in step
    assert "<html" not in step


async def test_plan_page_review_form_records_decision(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Is it right?")
    address = f"/plans/{plan['planId']}"
    page = await shown(browser, plan)
    match = re.search(r'name="reviewId" value="([^"]+)"', page)
    assert match
    assert visible_text(page).index("Is it right?") < visible_text(page).index("Map")
    fields = {
        "planId": plan["planId"],
        "reviewId": match[1],
        "decision": "approve",
        "back": address,
    }
    reply = await send(browser, address, at="/decisions", **fields)
    assert (reply.status_code, reply.headers["location"]) == (303, address)
    assert "1 of 2 done" in visible_text(await shown(browser, plan))
