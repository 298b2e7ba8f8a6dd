"""The page of a step: its content, and its forms."""

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from transport.page_client import send, visible_text


def at(plan: Body, order: int) -> str:
    return f"/plans/{plan['planId']}/steps/{plan['stepIds'][order - 1]}"


async def shown(browser: httpx2.AsyncClient, plan: Body, order: int) -> str:
    reply = await browser.get(at(plan, order))
    assert reply.status_code == 200, reply.text
    return reply.text


async def change(
    browser: httpx2.AsyncClient, plan: Body, order: int, action: str, **fields: str
) -> httpx2.Response:
    form = {"revision": "1", "rationale": "so that", **fields}
    return await send(browser, at(plan, order), action=action, **form)


async def orders(agent: AgentClient, plan: Body) -> list[int]:
    status = await agent.status(plan)
    return [plan["stepIds"].index(step["stepId"]) + 1 for step in status["pendingSteps"]]


async def test_step_page_shows_step_details(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient
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
    await agent.call("submit_user_decision", planId=plan["planId"], **decision)
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
    html = await shown(browser, plan, 1)
    page = visible_text(html)
    for part in (
        "Step 1 of 2, search, attempt 2",
        "Review feedback: Look &lt;again&gt;.",
        "Required by step 2, Weigh it.",
        "confidence 0.75",
        "&#34;river&#34;: &#34;&lt;b&gt;&#34;",
        "1,200 tokens, $0.5000",
        "ann requested review 9 min ago",
        "waited for a person for 7 min",
        "worked on for 2 min",
        "by ann (night)",
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
    assert "when step 1 completes" in visible_text(await shown(browser, plan, 2))
    assert "Depends on step 1, Look" in visible_text(await shown(browser, plan, 2))


async def test_step_page_shows_tool_calls_of_step(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="night")
    stale = {"stepId": taken["stepId"], "attempt": 9, "resultSummary": "x"}
    await agent.refused("submit_step_result", **stale)
    await world.dispatcher.calls.flush()
    page = visible_text(await shown(browser, plan, 1))
    assert "Tool calls the latest 2, 1 failed" in page
    assert "get_next_step ann mcp, night" in page
    assert "STALE_ATTEMPT" in page
    assert "Tool calls" not in visible_text(await shown(browser, plan, 2))


async def test_step_page_forms_apply_every_kind_of_modification(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(4)
    done = await change(browser, plan, 2, "update_step_instructions", instructions="Look twice.")
    assert (done.status_code, done.headers["location"]) == (303, at(plan, 2))
    assert "Look twice." in await shown(browser, plan, 2)
    assert (await change(browser, plan, 3, "move_up", revision="2")).status_code == 303
    assert await orders(agent, plan) == [1, 3, 2, 4]
    assert (await change(browser, plan, 1, "move_down", revision="3")).status_code == 303
    assert await orders(agent, plan) == [3, 1, 2, 4]
    gone = await change(browser, plan, 4, "remove_step", revision="4")
    assert gone.headers["location"] == f"/plans/{plan['planId']}"
    assert await orders(agent, plan) == [3, 1, 2]
    await change(browser, plan, 2, "fail_step", reason="too hard", revision="5")
    assert "Failure reason: too hard" in visible_text(await shown(browser, plan, 2))
    await change(browser, plan, 2, "retry_step", revision="6")
    assert await orders(agent, plan) == [3, 1, 2]
    assert "attempt 2" in visible_text(await shown(browser, plan, 2))


async def test_step_page_shows_why_an_action_is_unavailable(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    await agent.submit(await agent.take(plan))
    page = visible_text(await shown(browser, plan, 1))
    assert "Remove : step 1 is completed: only a pending step can be removed" in page
    assert "Mark as failed : step 1 is completed: only a pending or running step" in page
    assert "Retry : step 1 is completed: only a failed or running step" in page
    assert "Move up : it is the first step" in page
    page = visible_text(await shown(browser, plan, 2))
    assert "Move down : it is the last step" in page
    assert "Remove :" not in page
    await agent.work_through(plan)
    assert "The plan is closed and cannot be changed." in visible_text(
        await shown(browser, plan, 2)
    )


async def test_step_form_of_changed_plan_returns_409_with_typed_text(
    browser: httpx2.AsyncClient, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    typed = {"instructions": "Look <twice>.", "revision": "9"}
    reply = await change(browser, plan, 1, "update_step_instructions", **typed)
    assert reply.status_code == 409
    assert "The plan changed while you were editing" in reply.text
    assert "Look &lt;twice&gt;.</textarea>" in reply.text
    assert '<details id="do-update_step_instructions" open>' in reply.text
    assert 'name="revision" value="1"' in reply.text


async def test_step_page_preview_shows_effect_and_changes_nothing(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(3)
    before = await world.entries(agent.org_id, plan["planId"])
    moved = visible_text((await change(browser, plan, 2, "move_up", preview="1")).text)
    assert "Preview." in moved
    assert "step 2 becomes step 1" in moved
    removed = visible_text((await change(browser, plan, 1, "remove_step", preview="1")).text)
    assert "step 1 is removed, step 2 becomes step 1, step 3 becomes step 2" in removed
    assert await world.entries(agent.org_id, plan["planId"]) == before


@pytest.mark.parametrize("action", ["", "nonsense", "add_steps", "reorder_steps"])
async def test_step_page_returns_400_for_an_invalid_action(
    browser: httpx2.AsyncClient, world: OrgEnv, agent: AgentClient, action: str
) -> None:
    plan = await agent.plan(2)
    before = await world.entries(agent.org_id, plan["planId"])
    assert (await change(browser, plan, 1, action)).status_code == 400
    assert await world.entries(agent.org_id, plan["planId"]) == before
