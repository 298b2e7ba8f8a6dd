"""Page with the list of plans, without a browser: content, order, and query parameters."""

import html
import re

import httpx2
import pytest

from org_env import AgentClient, OrgEnv, make_step
from transport.page_client import visible_text

ID = re.compile(r'href="/plans/([0-9a-z]{12})"')
OLDER = re.compile(r'rel="next" href="([^"]+)"')
HTML = {"accept": "text/html"}


def listed(reply: httpx2.Response) -> list[str]:
    assert reply.status_code == 200, reply.text
    return ID.findall(reply.text)


def older(reply: httpx2.Response) -> str | None:
    match = OLDER.search(reply.text)
    return html.unescape(match[1]) if match else None


async def test_empty_plan_list_shows_the_connect_command(browser: httpx2.AsyncClient) -> None:
    reply = await browser.get("/plans")
    assert "claude mcp add --transport http waybook http://localhost/mcp" in reply.text
    assert "No plans yet" in reply.text
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert "unsafe" not in reply.headers["content-security-policy"]


async def test_plan_list_row_shows_progress_current_step_and_resume_prompt(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    agent = world.agent
    steps = [make_step(title=f"Look up {n}") for n in range(1, 5)]
    plan = await agent.plan(steps, name="Rivers <of> the north")
    await agent.submit(await agent.take(plan))
    taken = await agent.take(plan)
    await agent.call(
        "modify_plan",
        planId=plan["planId"],
        modifications=[{"action": "fail_step", "stepId": taken["stepId"], "reason": "No."}],
    )
    await agent.take(plan)
    world.clock.advance(minutes=40)
    await agent.status(plan)
    text = (await browser.get("/plans")).text
    assert "Rivers &lt;of&gt; the north" in text
    assert 'data-status="stalled"' in text
    assert "no activity for 40 min" in visible_text(text)
    assert "<b>1</b> of <b>4</b>, 1 failed" in re.sub(r"\s+", " ", text)
    assert '<span class="muted">3.</span> Look up 3' in text
    assert f"Continue the Waybook plan {plan['planId']}." in text
    assert "Next door" not in text


async def test_canceled_plan_is_canceled_on_every_page(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(2, name="Moors")
    taken = await agent.take(plan)
    end = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "fail"}
    failed = await agent.plan(1, name="Fens", branchingConditions=[end])
    await agent.submit(await agent.take(failed))
    cancel = {"action": "cancel_plan", "reason": "Not needed."}
    await agent.call("modify_plan", planId=plan["planId"], modifications=[cancel])
    home, step_id = f"/plans/{plan['planId']}", taken["stepId"]
    for address in (home, f"{home}/steps/{step_id}", f"{home}/edit", f"{home}/cancel"):
        text = (await browser.get(address)).text
        assert 'data-status="canceled"' in text, address
        assert 'data-status="failed"' not in text, address
    for state, only in (("canceled", plan), ("failed", failed)):
        assert listed(await browser.get(f"/plans?state={state}")) == [only["planId"]]
    everything = (await browser.get("/plans?state=all")).text
    assert re.findall(r'state=(canceled|failed)".*<b>(\d)</b>', everything) == [
        ("failed", "1"),
        ("canceled", "1"),
    ]
    assert (await agent.status(plan))["outcome"] == "canceled"


async def test_plan_list_has_every_plan_once_despite_changes(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plans = [await agent.plan(2, name=f"Plan {n}") for n in range(103)]
    made = [plan["planId"] for plan in plans]
    seen, address = [], "/plans"
    while address:
        reply = await browser.get(address)
        seen += listed(reply)
        # Between two pages of the list, change a plan that is already listed and a plan that is not
        # yet listed, and create a new plan.
        for plan in (plans[-len(seen) % 103], plans[1]):
            await agent.call("get_next_step", planId=plan["planId"], another=True)
        await agent.plan(1, name="Newer than all")
        address = older(reply) or ""
    assert seen == made[::-1]


async def test_next_page_link_of_plan_list_keeps_the_filter(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    ours = [await agent.plan(1, name=f"Ours {n}") for n in range(51)]
    theirs = await agent.acting_as("pat").plan(1, name="Of Pat")
    done = ours[0]
    await agent.work_through(done)
    first = await browser.get("/plans", params={"q": "OURS", "state": "planning"})
    assert len(listed(first)) == 50
    assert older(first) is None
    everything = await browser.get("/plans", params={"q": "ours", "state": "all"})
    assert len(listed(everything)) == 50
    following = older(everything) or ""
    assert "q=ours" in following
    assert "state=all" in following
    assert listed(await browser.get(following)) == [done["planId"]]
    assert listed(await browser.get("/plans?mine=1")) == [theirs["planId"]]
    assert listed(await browser.get("/plans?state=completed")) == [done["planId"]]
    their_id = theirs["planId"]
    for text in (their_id[:30], theirs["planId"]):
        assert listed(await browser.get(f"/plans?q={text}")) == [their_id]
    assert "No matching plans" in (await browser.get("/plans?q=nothing")).text


async def test_status_counts_of_the_plan_list_ignore_the_filter(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    for n in range(3):
        await agent.plan(1, name=f"Plan {n}")
    await agent.work_through(await agent.plan(1))
    text = re.sub(r"<svg.*?</svg>|<span[^>]*>|</span>", "", (await browser.get("/plans?q=x")).text)
    assert "open <b>3</b>" in text
    assert "all <b>4</b>" in text
    assert "planning <b>3</b>" in text
    assert "completed <b>1</b>" in text
    assert "stalled <b>" not in text


@pytest.mark.parametrize(
    "query", ["state=nonsense", "before=nonsense", "q=%00", "q=" + "a" * 201, "before=%00"]
)
async def test_plan_list_url_with_invalid_query_returns_400(
    browser: httpx2.AsyncClient, query: str
) -> None:
    page = await browser.get(f"/plans?{query}", headers=HTML)
    assert (page.status_code, "Bad request" in page.text) == (400, True)
    reply = await browser.get(f"/plans?{query}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")
