"""List of plans, exports of a plan, and the time slider that shows a plan's earlier states."""

import html
import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from transport.page_client import Browser, visible_text
from waybook.app.queries.plans import plan_snapshot
from waybook.core.changes import Change, Entity, Row, replay

ID = re.compile(r'href="/plans/([0-9a-z]{12})"')
OLDER = re.compile(r'rel="next" href="([^"]+)"')
HTML = {"accept": "text/html"}


def listed(reply: httpx2.Response) -> list[str]:
    assert reply.status_code == 200, reply.text
    return ID.findall(reply.text)


def older(reply: httpx2.Response) -> str | None:
    match = OLDER.search(reply.text)
    return html.unescape(match[1]) if match else None


async def test_empty_plan_list_shows_the_connect_command(browser: Browser) -> None:
    reply = await browser.get("/plans")
    assert "claude mcp add --transport http waybook http://localhost/mcp" in reply.text
    assert "No plans yet" in reply.text
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert "unsafe" not in reply.headers["content-security-policy"]


async def test_plan_list_row_shows_progress_current_step_and_resume_prompt(
    browser: Browser, world: OrgEnv
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
    assert "Stalled 40 min" in visible_text(text)
    assert "1 of 4 · 1 failed" in visible_text(text)
    assert f"Continue the Waybook plan {plan['planId']}." in text
    assert "Next door" not in text


async def test_canceled_plan_is_shown_as_canceled_on_every_page(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(2, name="Moors")
    taken = await agent.take(plan)
    end = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "fail"}
    failed = await agent.plan(1, name="Fens", branchingConditions=[end])
    await agent.submit(await agent.take(failed))
    await agent.modify(plan, "cancel_plan", reason="Not needed.")
    home, step_id = f"/plans/{plan['planId']}", taken["stepId"]
    for address in (home, f"{home}/steps/{step_id}", f"{home}/edit", f"{home}/cancel"):
        text = (await browser.get(address)).text
        assert 'data-status="canceled"' in text, address
        assert 'data-status="failed"' not in text, address
    for state, only in (("canceled", plan), ("failed", failed)):
        assert listed(await browser.get(f"/plans?state={state}")) == [only["planId"]]
    everything = (await browser.get("/plans?state=all")).text
    counted = re.findall(r'state=(canceled|failed)">\w+ <span class="num">(\d)<', everything)
    assert counted == [("failed", "1"), ("canceled", "1")]
    assert (await agent.status(plan))["outcome"] == "canceled"


async def test_paginated_plan_list_has_every_plan_once_if_plans_change(
    browser: Browser, agent: AgentClient
) -> None:
    plans = [await agent.plan(2, name=f"Plan {n}") for n in range(103)]
    made = [plan["planId"] for plan in plans]
    seen, address = [], "/plans"
    while address:
        reply = await browser.get(address)
        seen += listed(reply)
        # After each page of the list, change a plan that was listed and a plan that was not, and
        # create a plan.
        for plan in (plans[-len(seen) % 103], plans[1]):
            await agent.call("get_next_step", planId=plan["planId"], another=True)
        await agent.plan(1, name="Newer than all")
        address = older(reply) or ""
    assert sorted(seen) == sorted(made)
    # Within a page, plans in progress come before plans that are not started.
    assert {*seen[:50]} == {*made[53:]}


async def test_next_page_link_of_plan_list_keeps_the_filter(
    browser: Browser, agent: AgentClient
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
    browser: Browser, agent: AgentClient
) -> None:
    for n in range(3):
        await agent.plan(1, name=f"Plan {n}")
    await agent.work_through(await agent.plan(1))
    text = re.sub(r"<svg.*?</svg>|<span[^>]*>|</span>", "", (await browser.get("/plans?q=x")).text)
    for tab in ("Open 3", "All 4", "To do 3", "Done 1"):
        assert f">{tab}</a>" in text
    assert ">Stalled " not in text


@pytest.mark.parametrize(
    "query", ["state=nonsense", "before=nonsense", "q=%00", "q=" + "a" * 201, "before=%00"]
)
async def test_plan_list_url_with_invalid_query_returns_400(browser: Browser, query: str) -> None:
    page = await browser.get(f"/plans?{query}", headers=HTML)
    assert (page.status_code, "Bad request" in page.text) == (400, True)
    reply = await browser.get(f"/plans?{query}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


# Tests of exported files.


WICKED = "# Not a heading of ours\n```\n<script>alert(1)</script>"


def without_nulls(rows: dict[str, Row]) -> dict[str, Row]:
    return {i: {k: v for k, v in row.items() if v is not None} for i, row in rows.items()}


async def make_plan_with_everything(agent: AgentClient) -> Body:
    plan = await agent.plan(3, name='Rivers "of" <the> north/\u2028')
    taken = await agent.take(plan)
    source = {"title": "An atlas", "url": "https://example.org/atlas"}
    await agent.call(
        "store_research",
        planId=plan["planId"],
        stepId=taken["stepId"],
        kind="note",
        title="On rivers",
        content=WICKED,
        sources=[source],
    )
    await agent.submit(taken, {"river": "```Nile"}, confidence=0.5)
    taken = await agent.take(plan)
    await agent.review(taken)
    decision = {"decision": "approve", "feedback": "Fine."}
    await agent.decide(plan, **decision)
    await agent.submit(await agent.take(plan), WICKED)
    output = {"mediaType": "text/html", "title": "The report", "content": "<b>Nile</b>"}
    await agent.call("store_research_output", planId=plan["planId"], **output)
    return plan


async def test_replay_of_audit_in_plan_export_gives_the_stored_steps(
    browser: Browser, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await make_plan_with_everything(agent)
    reply = await browser.get(f"/plans/{plan['planId']}/export.json")
    export = reply.json()
    assert (export["format"], export["version"]) == ("waybook.plan", 2)
    assert export["plan"]["researchQuestion"] == "Which river is longest?"
    assert [step["order"] for step in export["steps"]] == [1, 2, 3]
    assert export["steps"][0]["resultSummary"] == {"river": "```Nile"}
    assert export["reviews"][0]["feedback"] == "Fine."
    assert {item["title"] for item in export["artifacts"]} == {"On rivers", "The report"}
    assert "<b>Nile</b>" in [item["content"] for item in export["artifacts"]]
    assert export["sources"][0]["url"] == "https://example.org/atlas"
    entries = await world.entries(agent.org_id, plan["planId"])
    assert [entry["seq"] for entry in export["audit"]] == [entry.seq for entry in entries]
    changes = [
        Change(Entity(item["entity"]), item["id"], item["field"], item["from"], item["to"])
        for entry in export["audit"]
        for item in entry["changes"]
    ]
    stored = await world.stored(agent.org_id, plan["planId"])
    assert without_nulls(replay(changes)["step"]) == without_nulls(stored["step"])


async def test_plan_markdown_export_has_sections_in_order(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await make_plan_with_everything(agent)
    text = (await browser.get(f"/plans/{plan['planId']}/export.md")).text
    parts = (
        '# Rivers "of" &lt;the> north/',
        "> Which river is longest?",
        "**Done**, 3 of 3 steps done",
        "### 1. Look up 1.",
        "**Result** (confidence 0.5):",
        "````json",
        "**Review**: Right?",
        "ann: approve, “Fine.”",
        "## Research",
        "- An atlas <https://example.org/atlas>",
        "## Outputs",
        "### The report, version 1 (text/html)",
        "## History",
        "ann created the plan",
        "ann completed step 3",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "\n# Not a heading" not in text


@pytest.mark.parametrize("ending", ["json", "md", "svg", "mmd"])
async def test_plan_export_is_sandboxed_attachment_with_safe_filename(
    browser: Browser, world: OrgEnv, agent: AgentClient, ending: str
) -> None:
    plan = await make_plan_with_everything(agent)
    reply = await browser.get(f"/plans/{plan['planId']}/export.{ending}")
    assert reply.status_code == 200
    named = reply.headers["content-disposition"]
    assert named.startswith('attachment; filename="')
    assert named.endswith(f'.{ending}"')
    assert named.isascii()
    assert named.count('"') == 2
    assert "sandbox" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"
    theirs = world.other_org_plan["planId"]
    assert (await browser.get(f"/plans/{theirs}/export.{ending}")).status_code == 404
    assert (await browser.get(f"/plans/{plan['planId']}/export.exe")).status_code == 404


# Tests of the time slider.


async def worked_plan(world: OrgEnv) -> Body:
    """Complete a step of a new plan; five minutes later, remove a step and add a step."""
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


async def history_page(browser: Browser, plan: Body, query: str = "") -> str:
    reply = await browser.get(f"/plans/{plan['planId']}/history{query}")
    assert reply.status_code == 200, reply.text
    return reply.text


async def test_time_slider_shows_the_state_after_every_audit_entry(
    browser: Browser, world: OrgEnv
) -> None:
    plan = await worked_plan(world)
    entries = await world.entries(world.agent.org_id, plan["planId"])
    pages = [
        visible_text(await history_page(browser, plan, f"?seq={entry.seq}")) for entry in entries
    ]
    done = [int(re.search(r"(\d) of (\d) done", text)[1]) for text in pages]  # type: ignore[index]  # is there
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 1)
    assert "Ready" in pages[0]
    assert "night" in pages[1]
    assert "One more." not in pages[2]
    assert "removed later" in pages[2]
    assert "One more." in pages[-1]


async def test_time_slider_shows_state_after_last_audit_entry_by_default(
    browser: Browser, world: OrgEnv
) -> None:
    plan = await worked_plan(world)
    last = len(await world.entries(world.agent.org_id, plan["planId"]))
    for query in ("", "?seq=999999", f"?seq={last}"):
        text = visible_text(await history_page(browser, plan, query))
        assert f"entry {last} of {last}" in text
        assert "Next" not in text


async def test_time_slider_shows_the_plan_at_a_given_time(browser: Browser, world: OrgEnv) -> None:
    begun = world.clock.now
    plan = await worked_plan(world)
    at = begun.replace(tzinfo=None).isoformat(timespec="seconds")
    assert "0 of 3 done" in visible_text(await history_page(browser, plan, f"?at={at}"))
    world.clock.advance(days=1)
    later = world.clock.now.replace(tzinfo=None).isoformat(timespec="seconds")
    assert "1 of 3 done" in visible_text(await history_page(browser, plan, f"?at={later}"))


@pytest.mark.parametrize("query", ["seq=x", "seq=-1", "seq=1.5", "at=yesterday", "seq=" + "9" * 40])
async def test_time_slider_with_an_invalid_entry_or_time_returns_400(
    browser: Browser, agent: AgentClient, query: str
) -> None:
    plan = await agent.plan(1)
    reply = await browser.get(f"/plans/{plan['planId']}/history?{query}")
    assert reply.status_code == 400
    assert "must be" in visible_text(reply.text)


async def test_time_slider_at_a_time_before_the_plan_returns_404(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    reply = await browser.get(f"/plans/{plan['planId']}/history?at=1999-01-01")
    assert reply.status_code == 404


async def test_time_slider_refuses_a_plan_with_too_many_audit_entries(
    browser: Browser, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_snapshot, "MAX_REPLAYED_ENTRIES", 1)
    plan = await agent.plan(1)
    await agent.take(plan)
    reply = await browser.get(f"/plans/{plan['planId']}/history")
    assert reply.status_code == 400
    assert "waybook audit as-of" in visible_text(reply.text)
