"""Page of a plan with its map and conditions, and page of a step."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from sent_messages import count_messages
from transport.page_client import Browser, send, visible_text


async def shown(browser: Browser, plan: Body, more: str = "") -> str:
    reply = await browser.get(f"/plans/{plan['planId']}{more}")
    assert reply.status_code == 200, reply.text
    return reply.text


async def test_plan_page_shows_progress_and_usage(
    browser: Browser, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(3, name="Rivers <of> the north")
    await agent.submit(await agent.take(plan), usage={"inputTokens": 1200, "costUsd": 0.5})
    await agent.take(plan, sessionId="night")
    world.clock.advance(minutes=5)
    page = visible_text(await shown(browser, plan))
    assert "Rivers &lt;of&gt; the north" in page
    assert "1 of 3 done" in page
    assert "1 running" in page
    assert "1 ready" in page
    assert "night" in page
    assert "Tokens 1,200 1,200 in, 0 out" in page
    assert "Cost $0.50 from 1 result" in page
    assert "night started step 2" in page
    assert "scope" not in page
    audit = await browser.get(f"/audit?subject={plan['planId']}")
    assert f"/audit?subject={plan['planId']}" in await shown(browser, plan)
    assert audit.status_code == 200


async def test_plan_page_with_stalled_step_shows_advice_and_writes_nothing(
    browser: Browser, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    await agent.take(plan)
    world.clock.advance(minutes=45)
    before = await world.entries(agent.org_id, plan["planId"])
    page = visible_text(await shown(browser, plan))
    assert "Step 1 stalled" in page
    assert "No activity from ann for 45 min" in page
    assert "limit 30 min" in page
    assert "Reassign step 1" in page
    assert await world.entries(agent.org_id, plan["planId"]) == before


async def test_page_of_canceled_plan_shows_the_reason_without_failure_color(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    await agent.modify(plan, "cancel_plan", reason="not needed")
    page = await shown(browser, plan)
    assert "<b>Canceled: not needed</b>" in page
    assert '<div class="note" data-s="fail">' not in page


async def test_edit_page_form_adds_step(browser: Browser, agent: AgentClient) -> None:
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
    browser: Browser, agent: AgentClient
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
    browser: Browser, agent: AgentClient, monkeypatch: pytest.MonkeyPatch
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


async def test_plan_page_retries_failed_step_only_at_the_shown_revision(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    await agent.modify(plan, "fail_step", stepId=plan["stepIds"][0], reason="no <water>")
    page = await shown(browser, plan)
    assert "no &lt;water&gt;" in page
    (work,) = re.findall(r'name="work" value="([^"]+)"', page)
    address = f"/plans/{plan['planId']}"
    form = {"back": address, "at": "/rescue"}
    stale = await send(browser, address, **form, work=work.replace(":2:", ":1:"))
    assert stale.status_code == 409
    assert "The plan is at revision 2, but you expected 1" in visible_text(stale.text)
    assert f'<a class="b main" href="{address}">Back</a>' in stale.text
    reply = await send(browser, address, **form, work=work)
    there = f"{address}?done=retry"
    assert (reply.status_code, reply.headers["location"]) == (303, there)
    assert "can claim the step again" in await shown(browser, plan, "?done=retry")
    assert (await agent.take(plan))["attempt"] == 2


async def test_steps_of_plan_page_are_filtered_by_state_and_found_by_number(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(150)
    for order in (3, 120):
        step_id = plan["stepIds"][order - 1]
        await agent.modify(plan, "fail_step", stepId=step_id, reason="no water")
    failed = await shown(browser, plan, "?state=failed")
    assert re.findall(r'<li id="s(\d+)"', failed) == ["3", "120"]
    assert "No steps in this state." in await shown(browser, plan, "?state=skipped")
    assert 'id="s100"' in await shown(browser, plan, "?state=nonsense")
    for typed, place in (("120", "page=2#s120"), ("%233", "page=1#s3")):
        reply = await browser.get(f"/plans/{plan['planId']}?step={typed}")
        assert reply.headers["location"] == f"/plans/{plan['planId']}?{place}"


async def test_page_of_a_large_plan_is_paginated(browser: Browser, agent: AgentClient) -> None:
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


async def test_map_of_a_large_plan_is_drawn_around_the_step_looked_for(
    browser: Browser, agent: AgentClient
) -> None:
    steps = [make_step(title=f"River {number}") for number in range(1, 201)]
    plan = await agent.plan(steps)
    last = f'data-centre="{plan["stepIds"][199]}"'
    assert last not in await shown(browser, plan)
    page = await shown(browser, plan, "?find=river+200")
    assert last in page
    assert f'data-step="{plan["stepIds"][199]}"' in page
    assert "The map is drawn around step 200, River 200" in visible_text(page)
    assert last not in await shown(browser, plan, "?find=no+such+step")


# Tests of conditions on the map.


async def make_branching_plan(agent: AgentClient) -> Body:
    """Create a plan of six steps, with conditions that skip steps, fail the plan or add a step."""
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
    """Return the texts about conditions that are below the map."""
    return re.findall(r'<text[^>]*class="note"[^>]*>(◇ step \d: [^<]*)</text>', page.text)


async def test_plan_map_draws_conditions_and_describes_effects(
    browser: Browser, agent: AgentClient
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
    browser: Browser, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    for _ in range(2):
        await agent.submit(await agent.take(plan), {"n": 7})
    page = await browser.get(f"/plans/{plan['planId']}")
    assert notes(page)[0] == "◇ step 2: skip to step 5 if result.n &lt; 3 (not fired)"
    assert 'class="branch"' not in page.text


async def test_svg_export_of_a_plan_map_contains_conditions(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await make_branching_plan(agent)
    drawing = await browser.get(f"/plans/{plan['planId']}/export.svg")
    assert len(notes(drawing)) == 3
    assert 'class="branch"' in drawing.text


async def test_plan_and_step_pages_show_repetitions_with_number_and_reason(
    browser: Browser, agent: AgentClient
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


# Tests of the page of a step.


def step_path(plan: Body, order: int) -> str:
    return f"/plans/{plan['planId']}/steps/{plan['stepIds'][order - 1]}"


async def step_page(browser: Browser, plan: Body, order: int) -> str:
    reply = await browser.get(step_path(plan, order))
    assert reply.status_code == 200, reply.text
    return reply.text


async def change(
    browser: Browser, plan: Body, order: int, action: str, **fields: str
) -> httpx2.Response:
    form = {"revision": "1", "rationale": "so that", **fields}
    return await send(browser, step_path(plan, order), action=action, **form)


async def orders(agent: AgentClient, plan: Body) -> list[int]:
    status = await agent.status(plan)
    return [plan["stepIds"].index(step["stepId"]) + 1 for step in status["pendingSteps"]]


async def test_step_page_shows_result_review_conditions_research_and_usage(
    browser: Browser, world: OrgEnv, agent: AgentClient
) -> None:
    steps = [make_step("Look it up.", title="Look"), make_step("Weigh it.", dependsOn=[1])]
    conditions = [
        {"afterStepOrder": 1, "conditionExpression": "result.n == 0", "ifTrueAction": "continue"},
        {
            "afterStepOrder": 1,
            "conditionExpression": "result.nothing == 0",
            "ifTrueAction": "skip_to",
            "actionParams": {"targetStepOrder": 2},
        },
    ]
    plan = await agent.plan(steps, branchingConditions=conditions)
    taken = await agent.take(plan, sessionId="night")
    world.clock.advance(minutes=3)
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    args = {**held, "summary": "Is it right?", "questions": ["Is it?"]}
    await agent.call("request_user_review", **args)
    world.clock.advance(minutes=7)
    decision = {"decision": "modify", "feedback": "Look <again>."}
    await agent.decide(plan, **decision)
    taken = await agent.take(plan, sessionId="night")
    source = {"title": "An atlas", "url": "https://example.org/atlas", "quote": "Long."}
    wicked = {"title": "Worse", "url": "javascript:alert(1)"}
    await agent.call(
        "store_research",
        planId=plan["planId"],
        stepId=taken["stepId"],
        kind="note",
        title="On rivers",
        content="They flow.",
        sources=[source, wicked],
    )
    world.clock.advance(minutes=2)
    usage = {"inputTokens": 1200, "costUsd": 0.5}
    await agent.submit(taken, {"n": 1, "river": "<b>"}, confidence=0.75, usage=usage)
    html = await step_page(browser, plan, 1)
    page = visible_text(html)
    for part in (
        "Step 1 of 2, search, attempt 2",
        "Review feedback: Look &lt;again&gt;.",
        "Required by step 2, Weigh it.",
        "confidence 0.75",
        "&#34;river&#34;: &#34;&lt;b&gt;&#34;",
        "1,200 tokens, $0.50",
        "ann requested review 9 min ago",
        "waited for a person for 7 min",
        "worked on for 2 min",
        "by night",
        "result.n == 0 continue not fired",
        "result.nothing == 0 skip to step 2 error",
        "On rivers",
        "2 sources",
        "completed step 1",
        "stored research: On rivers",
    ):
        assert part in page, part
    assert 'href="https://example.org/atlas"' in html
    assert 'href="javascript' not in html
    assert 'rel="next"' in html
    assert 'rel="prev"' not in html
    assert "when step 1 completes" in visible_text(await step_page(browser, plan, 2))
    assert "Depends on step 1, Look" in visible_text(await step_page(browser, plan, 2))


async def test_step_page_shows_tool_calls_of_step(
    browser: Browser, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="night")
    stale = {"stepId": taken["stepId"], "attempt": 9, "resultSummary": "x"}
    await agent.refused("submit_step_result", **stale)
    await world.dispatcher.calls.flush()
    page = visible_text(await step_page(browser, plan, 1))
    assert "Tool calls the latest 2, 1 failed" in page
    assert "get_next_step night ann, mcp" in page
    assert "STALE_ATTEMPT" in page
    assert "Tool calls" not in visible_text(await step_page(browser, plan, 2))


async def test_step_page_forms_apply_every_kind_of_modification(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(4)
    done = await change(browser, plan, 2, "update_step_instructions", instructions="Look twice.")
    assert (done.status_code, done.headers["location"]) == (303, step_path(plan, 2))
    assert "Look twice." in await step_page(browser, plan, 2)
    assert (await change(browser, plan, 3, "move_up", revision="2")).status_code == 303
    assert await orders(agent, plan) == [1, 3, 2, 4]
    assert (await change(browser, plan, 1, "move_down", revision="3")).status_code == 303
    assert await orders(agent, plan) == [3, 1, 2, 4]
    gone = await change(browser, plan, 4, "remove_step", revision="4")
    assert gone.headers["location"] == f"/plans/{plan['planId']}"
    assert await orders(agent, plan) == [3, 1, 2]
    await change(browser, plan, 2, "fail_step", reason="too hard", revision="5")
    assert "Failure reason: too hard" in visible_text(await step_page(browser, plan, 2))
    await change(browser, plan, 2, "retry_step", revision="6")
    assert await orders(agent, plan) == [3, 1, 2]
    assert "attempt 2" in visible_text(await step_page(browser, plan, 2))


async def test_step_page_shows_the_reason_an_action_is_unavailable(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    await agent.submit(await agent.take(plan))
    page = visible_text(await step_page(browser, plan, 1))
    for action, reason in (
        ("Remove", "step 1 is completed: only a pending step can be removed"),
        ("Mark as failed", "step 1 is completed: only a pending or running step"),
        ("Retry", "step 1 is completed: only a failed or running step"),
        ("Move up", "it is the first step"),
    ):
        assert f"{action} is not possible: {reason}" in page
    page = visible_text(await step_page(browser, plan, 2))
    assert "Move down is not possible: it is the last step" in page
    assert "Remove is not possible" not in page
    await agent.work_through(plan)
    assert "The plan is closed and cannot be changed." in visible_text(
        await step_page(browser, plan, 2)
    )


@pytest.mark.parametrize("action", ["", "nonsense", "add_steps", "reorder_steps"])
async def test_step_page_returns_400_for_an_invalid_action(
    browser: Browser, world: OrgEnv, agent: AgentClient, action: str
) -> None:
    plan = await agent.plan(2)
    before = await world.entries(agent.org_id, plan["planId"])
    assert (await change(browser, plan, 1, action)).status_code == 400
    assert await world.entries(agent.org_id, plan["planId"]) == before
