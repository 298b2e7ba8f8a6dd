"""Branching conditions on the map of a plan."""

import re

import httpx2

from full_ids import full_id
from org_env import AgentClient, Body, make_step


async def make_branching_plan(agent: AgentClient) -> Body:
    """Create a plan of six steps with a condition for each kind of effect."""
    skip = {"afterStepOrder": 2, "ifTrueAction": "skip_to"}
    fail = {"afterStepOrder": 3, "ifTrueAction": "fail", "actionParams": {"reason": "no <b>"}}
    more = {"afterStepOrder": 5, "ifTrueAction": "add_steps"}
    conditions = [
        {**skip, "conditionExpression": "result.n < 3", "actionParams": {"targetStepOrder": 5}},
        {**fail, "conditionExpression": 'result.text == "<script>"'},
        {**more, "conditionExpression": "true", "actionParams": {"steps": [make_step()]}},
    ]
    return await agent.plan(6, branchingConditions=conditions)


def notes(page: httpx2.Response) -> list[str]:
    """Return the conditions listed below the map."""
    return re.findall(r'<text[^>]*class="note"[^>]*>(◇ step \d: [^<]*)</text>', page.text)


async def test_plan_map_draws_conditions_and_lists_effects(
    reader: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    page = await reader.get(f"/plans/{plan['planId']}")
    assert notes(page) == [
        "◇ step 2: skip to step 5 if result.n &lt; 3",
        "◇ step 3: end the plan as failed if result.text == &quot;&lt;script&gt;&quot;",
        "◇ step 5: add a step if true",
    ]
    assert len(re.findall(r'<path class="branch"', page.text)) == 1
    marked = re.findall(r">◇ (step \d)</text>", page.text)
    assert marked == ["step 2", "step 3", "step 5"]


async def test_plan_map_shows_outcome_of_evaluated_condition(
    reader: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    for _ in range(2):
        await agent.submit(await agent.take(plan), {"n": 7})
    page = await reader.get(f"/plans/{plan['planId']}")
    assert notes(page)[0] == "◇ step 2: skip to step 5 if result.n &lt; 3 (not fired)"
    assert 'class="branch"' not in page.text


async def test_svg_export_of_a_plan_map_contains_conditions(
    reader: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    drawing = await reader.get(f"/plans/{full_id(plan['planId'])}/export.svg")
    assert len(notes(drawing)) == 3
    assert 'class="branch"' in drawing.text
