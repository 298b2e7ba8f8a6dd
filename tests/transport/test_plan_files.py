"""Exports of a plan as files: complete, readable, and safe to open."""

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from waybook.core.changes import Row, change_from_json, replay

WICKED = "# Not a heading of ours\n```\n<script>alert(1)</script>"


def without_nulls(rows: dict[str, Row]) -> dict[str, Row]:
    """Return the rows without null fields, because a null field equals a missing field."""
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
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    decision = {"decision": "approve", "feedback": "Fine."}
    await agent.call("submit_user_decision", planId=plan["planId"], **decision)
    await agent.submit(await agent.take(plan), WICKED)
    output = {"mediaType": "text/html", "title": "The report", "content": "<b>Nile</b>"}
    await agent.call("store_research_output", planId=plan["planId"], **output)
    return plan


async def test_audit_in_plan_export_replays_to_the_stored_steps(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient
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
    changes = (change_from_json(item) for entry in export["audit"] for item in entry["changes"])
    stored = await world.stored(agent.org_id, plan["planId"])
    assert without_nulls(replay(changes)["step"]) == without_nulls(stored["step"])


async def test_plan_markdown_export_has_sections_in_order(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_plan_with_everything(agent)
    text = (await browser.get(f"/plans/{plan['planId']}/export.md")).text
    parts = (
        '# Rivers "of" &lt;the> north/',
        "> Which river is longest?",
        "**completed**, 3 of 3 steps done",
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
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient, ending: str
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
