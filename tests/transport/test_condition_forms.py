"""Forms that edit the conditions of a step, one by one or as JSON."""

import json
import re
from html import unescape

import pytest

from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient, Body, make_step
from transport.page_client import Browser, send, visible_text

pytestmark = ON_POSTGRES_18

FORM = {
    "action": "set_conditions",
    "condition": "new",
    "expression": "result.count == 0",
    "then": "continue",
    "step": "",
    "times": "",
    "type": "search",
    "instructions": "",
    "note": "",
    "revision": "1",
}


@pytest.fixture
async def plan(agent: AgentClient) -> Body:
    return await agent.plan([make_step(title=name) for name in ("Read", "Weigh", "Check", "Write")])


def step_path(plan: Body, order: int = 2) -> str:
    return f"/plans/{plan['planId']}/steps/{plan['stepIds'][order - 1]}"


async def conditions(browser: Browser, plan: Body, order: int = 2) -> list[Body]:
    page = (await browser.get(step_path(plan, order))).text
    match = re.search(r'name="conditions"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert match, page
    text = unescape(match[1])
    listed: list[Body] = json.loads(text) if text else []
    return listed


@pytest.mark.parametrize(
    ("fields", "params"),
    [
        ({}, None),
        ({"then": "fail", "note": "No data."}, {"reason": "No data."}),
        ({"then": "skip_to", "step": "4"}, {"targetStepOrder": 4}),
        ({"then": "repeat", "step": "1", "times": "3"}, {"fromStepOrder": 1, "max": 3}),
        ({"then": "repeat", "times": "3"}, {"max": 3}),
        (
            {"then": "add_steps", "type": "critique", "instructions": "Look again."},
            {"steps": [{"stepType": "critique", "instructions": "Look again."}]},
        ),
    ],
)
async def test_condition_form_saves_and_shows_every_action(
    browser: Browser, plan: Body, fields: dict[str, str], params: Body | None
) -> None:
    path = step_path(plan)
    reply = await send(browser, path, **{**FORM, **fields})
    assert reply.status_code == 303, visible_text(reply.text)
    (saved,) = await conditions(browser, plan)
    assert saved["conditionExpression"] == "result.count == 0"
    assert saved["ifTrueAction"] == fields.get("then", "continue")
    assert saved.get("actionParams") == params
    shown = (await browser.get(path)).text
    form = shown.split('<details id="condition-0"')[1].split("</form>")[0]
    expected = {**FORM, **fields}
    for name in ("expression", "step", "times", "note"):
        assert f'name="{name}"' in form
        match = re.search(rf'name="{name}"[^>]* value="([^"]*)"', form)
        assert match, name
        assert unescape(match[1]) == expected[name], name
    assert f'<option value="{expected["then"]}" selected>' in form
    assert f"\n{expected['instructions']}</textarea>" in form


async def test_condition_forms_change_and_remove_one_of_several_conditions(
    browser: Browser, agent: AgentClient
) -> None:
    other = {
        "afterStepOrder": 2,
        "conditionExpression": "size(result.sources) == 0 && confidence < 0.5",
        "ifTrueAction": "add_steps",
        "actionParams": {
            "steps": [
                make_step(
                    "More.",
                    title="More",
                    stallMinutes=5,
                    branchingConditions=[
                        {
                            "conditionExpression": "result == 1",
                            "ifTrueAction": "repeat",
                            "actionParams": {"max": 2},
                        }
                    ],
                )
            ]
        },
    }
    plain = {
        "afterStepOrder": 2,
        "conditionExpression": "report.contains('x')",
        "ifTrueAction": "fail",
    }
    plan = await agent.plan(4, branchingConditions=[other, plain])
    path = step_path(plan)
    before = await conditions(browser, plan)
    page = (await browser.get(path)).text
    assert "The steps that this condition adds do not fit into a form." in page
    assert "If report.contains(&#39;x&#39;): fail the plan" in page
    changed = {**FORM, "condition": "1", "expression": "confidence < 0.2"}
    assert (await send(browser, path, **changed)).status_code == 303
    after = await conditions(browser, plan)
    assert after[0] == before[0]
    added = after[0]["actionParams"]["steps"][0]
    assert added["stallMinutes"] == 5
    assert added["branchingConditions"][0]["actionParams"] == {"max": 2}
    assert after[1] == {"conditionExpression": "confidence < 0.2", "ifTrueAction": "continue"}
    removal = {"action": "set_conditions", "condition": "0", "remove": "1", "revision": "2"}
    assert (await send(browser, path, **removal)).status_code == 303
    assert await conditions(browser, plan) == after[1:]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"expression": "result ="}, "position"),
        ({"expression": "answer == 1"}, "unknown name"),
        ({"expression": ""}, "the condition is empty"),
        ({"then": "explode"}, "ifTrueAction"),
        ({"then": "skip_to", "step": "2"}, "targetStepOrder"),
        ({"then": "skip_to", "step": "x"}, "targetStepOrder"),
        ({"then": "repeat", "step": "9", "times": "1"}, "fromStepOrder"),
        ({"then": "repeat", "times": "101"}, "max"),
        ({"then": "add_steps"}, "instructions"),
    ],
)
async def test_refused_condition_is_explained_and_keeps_the_input(
    browser: Browser, plan: Body, fields: dict[str, str], message: str
) -> None:
    sent = {**FORM, "note": "Kept as typed.", **fields}
    reply = await send(browser, step_path(plan), **sent)
    assert reply.status_code == 400
    fault = re.search(r'role="alert">(.*?)</p>', reply.text, re.DOTALL)
    assert fault, visible_text(reply.text)
    assert message in unescape(fault[1])
    form = reply.text.split('<details id="condition-new" open')[1].split("</form>")[0]
    for field in ("expression", "step", "times", "note"):
        match = re.search(rf'name="{field}"[^>]* value="([^"]*)"', form)
        assert match, field
        assert unescape(match[1]) == sent[field]
    assert await conditions(browser, plan) == []
