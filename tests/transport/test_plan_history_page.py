"""Time slider of a plan: it shows the plan as it was after each audit entry."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from transport.page_client import visible_text
from waybook.app.queries.plans import plan_history


async def worked_plan(world: OrgEnv) -> Body:
    """Complete a step of a plan, remove another step and add one, five minutes apart."""
    agent = world.agent
    plan = await agent.plan([make_step(f"Look <up> {n}.") for n in range(3)], name="Rivers <&>")
    taken = await agent.take(plan, sessionId="night")
    world.clock.advance(minutes=5)
    await agent.submit(taken)
    world.clock.advance(minutes=5)
    changes = [
        {"action": "remove_step", "stepId": plan["stepIds"][2]},
        {"action": "add_steps", "steps": [make_step("One more.")]},
    ]
    await agent.call("modify_plan", planId=plan["planId"], modifications=changes)
    return plan


async def page(browser: httpx2.AsyncClient, plan: Body, query: str = "") -> str:
    reply = await browser.get(f"/plans/{plan['planId']}/history{query}")
    assert reply.status_code == 200, reply.text
    return reply.text


async def test_time_slider_shows_the_state_after_every_audit_entry(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    plan = await worked_plan(world)
    entries = await world.entries(world.agent.org_id, plan["planId"])
    pages = [visible_text(await page(browser, plan, f"?seq={entry.seq}")) for entry in entries]
    done = [int(re.search(r"(\d) of (\d) done", text)[1]) for text in pages]  # type: ignore[index]  # is there
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 1)
    assert "planning" in pages[0]
    assert "night" in pages[1]
    assert "One more." not in pages[2]
    assert "removed later" in pages[2]
    assert "One more." in pages[-1]


async def test_time_slider_shows_state_after_last_audit_entry_by_default(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    plan = await worked_plan(world)
    last = len(await world.entries(world.agent.org_id, plan["planId"]))
    for query in ("", "?seq=999999", f"?seq={last}"):
        text = visible_text(await page(browser, plan, query))
        assert f"entry {last} of {last}" in text
        assert "Next" not in text


async def test_time_slider_shows_the_plan_as_of_a_time(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    begun = world.clock.now
    plan = await worked_plan(world)
    at = begun.replace(tzinfo=None).isoformat(timespec="seconds")
    assert "0 of 3 done" in visible_text(await page(browser, plan, f"?at={at}"))
    world.clock.advance(days=1)
    later = world.clock.now.replace(tzinfo=None).isoformat(timespec="seconds")
    assert "1 of 3 done" in visible_text(await page(browser, plan, f"?at={later}"))


@pytest.mark.parametrize("query", ["seq=x", "seq=-1", "seq=1.5", "at=yesterday", "seq=" + "9" * 40])
async def test_time_slider_refuses_an_invalid_position(
    browser: httpx2.AsyncClient, agent: AgentClient, query: str
) -> None:
    plan = await agent.plan(1)
    reply = await browser.get(f"/plans/{plan['planId']}/history?{query}")
    assert reply.status_code == 400
    assert "must be" in visible_text(reply.text)


async def test_time_slider_at_a_time_before_the_plan_returns_404(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    reply = await browser.get(f"/plans/{plan['planId']}/history?at=1999-01-01")
    assert reply.status_code == 404


async def test_time_slider_refuses_to_replay_too_many_entries(
    browser: httpx2.AsyncClient, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_history, "MAX_REPLAYED_ENTRIES", 1)
    plan = await agent.plan(1)
    await agent.take(plan)
    reply = await browser.get(f"/plans/{plan['planId']}/history")
    assert reply.status_code == 400
    assert "waybook audit as-of" in visible_text(reply.text)
