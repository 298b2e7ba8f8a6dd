"""Branching conditions on the map of a plan."""

import re

import httpx2

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
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    page = await browser.get(f"/plans/{plan['planId']}")
    assert notes(page) == [
        "◇ step 2: skip to step 5 if result.n &lt; 3",
        "◇ step 3: end the plan as failed if result.text == &quot;&lt;script&gt;&quot;",
        "◇ step 5: add a step if true",
    ]
    assert len(re.findall(r'<path class="branch"', page.text)) == 1
    marked = re.findall(r">◇ (step \d)</text>", page.text)
    assert marked == ["step 2", "step 3", "step 5"]


async def test_plan_map_shows_outcome_of_evaluated_condition(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    for _ in range(2):
        await agent.submit(await agent.take(plan), {"n": 7})
    page = await browser.get(f"/plans/{plan['planId']}")
    assert notes(page)[0] == "◇ step 2: skip to step 5 if result.n &lt; 3 (not fired)"
    assert 'class="branch"' not in page.text


async def test_svg_export_of_a_plan_map_contains_conditions(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    drawing = await browser.get(f"/plans/{plan['planId']}/export.svg")
    assert len(notes(drawing)) == 3
    assert 'class="branch"' in drawing.text


async def test_plan_and_step_pages_show_loops_rounds_and_reasons(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    loop = {
        "afterStepOrder": 2,
        "conditionExpression": "result.score < 5",
        "ifTrueAction": "repeat",
        "actionParams": {"fromStepOrder": 1, "max": 2, "onExhausted": "review", "reason": "weak"},
    }
    plan = await agent.plan(3, branchingConditions=[loop])
    page = await browser.get(f"/plans/{plan['planId']}")
    effect = "repeat from step 1 (round 1 of 3, then ask a person) if result.score &lt; 5"
    assert notes(page) == [f"◇ step 2: {effect}"]
    assert page.text.count('<path class="branch loop"') == 1
    assert "scope +" not in page.text
    await agent.submit(await agent.take(plan), "draft")
    await agent.submit(await agent.take(plan), {"score": 3})
    page = await browser.get(f"/plans/{plan['planId']}")
    assert page.text.count('<path class="branch loop"') == 1
    assert "repeat from step 3 (round 2 of 3, then ask a person)" in notes(page)[1]
    assert "scope +2" in page.text
    repeated = await agent.take(plan)
    step = await browser.get(f"/plans/{plan['planId']}/steps/{repeated['stepId']}")
    assert "<b>Round 2 of 3:</b>" in step.text
    assert "<code>result.score = 3</code>" in step.text
    assert re.search(r"Latest results: <a [^>]*>step 1</a>, <a [^>]*>step 2</a>", step.text)
    first = await browser.get(f"/plans/{plan['planId']}/steps/{plan['stepIds'][1]}")
    assert "repeat, at most 2 times, then ask a person" in first.text
