"""Pages that edit or copy a plan, and the page that copies a run."""

import json
import re
from html import unescape

import pytest

from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient, Body, make_step
from transport.page_client import Browser, send, visible_text

pytestmark = ON_POSTGRES_18

CONDITION = '{"conditionExpression": "result == 1", "ifTrueAction": "continue"}'


@pytest.fixture
async def plan(agent: AgentClient) -> Body:
    return await agent.plan([make_step(title=name) for name in ("Read", "Weigh", "Write")])


def edit_path(plan: Body) -> str:
    return f"/plans/{plan['planId']}/edit"


async def titles(agent: AgentClient, plan: Body) -> list[str]:
    return [step["title"] for step in (await agent.status(plan))["pendingSteps"]]


async def test_move_button_swaps_steps_and_keeps_focus(
    browser: Browser, agent: AgentClient, plan: Body
) -> None:
    fields = {"action": "reorder_steps", "move": f"up:{plan['stepIds'][2]}", "revision": "1"}
    reply = await send(browser, edit_path(plan), **fields)
    there = f"/plans/{plan['planId']}/edit?moved=2&way=up"
    assert (reply.status_code, reply.headers["location"]) == (303, there)
    assert await titles(agent, plan) == ["Read", "Write", "Weigh"]
    page = (await browser.get(there)).text
    focused = re.findall(r'aria-label="([^"]+)" autofocus', page)
    assert focused == ["Move up: Write"]


async def test_reordering_steps_of_an_older_plan_revision_is_refused(
    browser: Browser, agent: AgentClient, plan: Body
) -> None:
    order = ",".join(reversed(plan["stepIds"]))
    fields = {"action": "reorder_steps", "order": order, "revision": "7"}
    reply = await send(browser, edit_path(plan), **fields)
    assert reply.status_code == 409
    assert "The plan changed while you were editing." in visible_text(reply.text)
    shown = re.findall(r'data-step="([^"]+)"', reply.text)
    assert shown == plan["stepIds"][::-1]
    assert f'name="order" value="{order}"' in reply.text
    assert await titles(agent, plan) == ["Read", "Weigh", "Write"]


async def test_budget_form_sets_and_removes_the_budget(
    browser: Browser, agent: AgentClient, plan: Body
) -> None:
    limits = {"action": "set_budget", "tokens": "5000", "cost": "1.5"}
    assert (await send(browser, edit_path(plan), **limits, revision="1")).status_code == 303
    budget = (await agent.status(plan))["budget"]
    assert (budget["tokens"]["of"], budget["costUsd"]["of"]) == (5000, 1.5)
    page = (await browser.get(edit_path(plan))).text
    assert 'value="5000"' in page
    assert 'value="1.5"' in page
    none = {**limits, "tokens": "", "cost": ""}
    assert (await send(browser, edit_path(plan), **none, revision="2")).status_code == 303
    assert "budget" not in await agent.status(plan)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"action": "set_title", "title": "Compare"}, "Compare"),
        ({"action": "set_dependencies", "dependsOn": "1"}, "Depends on"),
        ({"action": "set_conditions", "conditions": f"[{CONDITION}]"}, "result == 1"),
    ],
)
async def test_step_form_changes_title_dependencies_and_conditions(
    browser: Browser, plan: Body, fields: dict[str, str], expected: str
) -> None:
    path = f"/plans/{plan['planId']}/steps/{plan['stepIds'][1]}"
    stale = await send(browser, path, **fields, revision="9")
    assert stale.status_code == 409
    for name, typed in fields.items():
        assert name == "action" or typed in unescape(stale.text)
    reply = await send(browser, path, **fields, revision="1")
    assert reply.status_code == 303, reply.text
    assert expected in visible_text(unescape((await browser.get(path)).text))


async def test_step_form_without_edits_leaves_conditions_unchanged(
    browser: Browser, agent: AgentClient
) -> None:
    conditions = [
        {
            "afterStepOrder": 1,
            "conditionExpression": "result == 1",
            "ifTrueAction": "skip_to",
            "actionParams": {"targetStepOrder": 3, "reason": "known"},
        },
        {
            "afterStepOrder": 1,
            "conditionExpression": "result == 2",
            "ifTrueAction": "add_steps",
            "actionParams": {"steps": [make_step("More.", title="More")]},
        },
        {
            "afterStepOrder": 1,
            "conditionExpression": "result == 3",
            "ifTrueAction": "repeat",
            "actionParams": {"max": 2},
        },
    ]
    plan = await agent.plan(3, branchingConditions=conditions)
    path = f"/plans/{plan['planId']}/steps/{plan['stepIds'][0]}"
    pattern = re.compile(r'name="conditions"[^>]*>\n(.*?)</textarea>', re.DOTALL)
    match = pattern.search((await browser.get(path)).text)
    assert match
    text = unescape(match[1])
    assert len(json.loads(text)) == 3
    sent = {"action": "set_conditions", "conditions": text, "revision": "1"}
    assert (await send(browser, path, **sent)).status_code == 303
    again = pattern.search((await browser.get(path)).text)
    assert again
    assert unescape(again[1]) == text


async def test_plan_copied_on_dashboard_keeps_results_before_the_chosen_step(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(3)
    for _ in range(2):
        await agent.submit(await agent.take(plan))
    path = f"/plans/{plan['planId']}/copy"
    page = (await browser.get(f"{path}?from=2")).text
    assert '<option value="2" selected>' in page
    assert '<option value="3"' in page
    fields = {"name": "Again", "from": "2", "key": "k"}
    reply = await send(browser, path, **fields)
    assert reply.status_code == 303, reply.text
    copied = {"planId": reply.headers["location"].rpartition("/")[2]}
    assert (await agent.take(copied))["stepOrder"] == 2
    again = await send(browser, path, **fields)
    assert again.headers["location"] == reply.headers["location"]
    refused = await send(browser, path, **{**fields, "from": "9", "name": "Kept", "key": "other"})
    assert refused.status_code == 400
    assert 'value="Kept"' in refused.text


async def test_run_copied_on_dashboard_restarts_the_chosen_stage(
    browser: Browser, agent: AgentClient
) -> None:
    run = await agent.run()
    await agent.work_off(run)
    await agent.feedback(run, "scope")
    path = f"/runs/{run['runId']}/copy"
    page = (await browser.get(path)).text
    assert re.findall(r'<option value="(\w+)"', page) == ["scope", "gather"]
    assert "a\nb</textarea>" in page
    reply = await send(browser, path, **{"name": "Again", "from": "gather", "models": "c"}, key="k")
    assert reply.status_code == 303, reply.text
    job = await agent.job({"runId": reply.headers["location"].rpartition("/")[2]})
    assert (job["stageSlug"], job["modelId"]) == ("gather", "c")
    early = {"name": "Kept", "from": "synthesis", "models": "c", "key": "other"}
    refused = await send(browser, path, **early)
    assert refused.status_code == 400
    assert 'value="Kept"' in refused.text
