"""Replies of `draw_map`: a drawing of a plan, run or workflow, with progress if there is any."""

import json
from html import escape

from org_env import AgentClient, Body, OrgEnv, make_step


async def drawn(agent: AgentClient, plan: Body, **more: object) -> Body:
    return await agent.call("draw_map", planId=plan["planId"], **more)


async def test_draw_map_of_plan_shows_progress(agent: AgentClient) -> None:
    steps = [make_step(title="<Find>"), make_step("Compare.\nAll of them."), make_step()]
    plan = await agent.plan(steps, name="Rivers")
    await agent.submit(await agent.take(plan))
    await agent.take(plan)
    drawing = await drawn(agent, plan)
    assert (drawing["name"], drawing["status"], drawing["over"]) == ("Rivers", "executing", False)
    assert drawing["progress"] == {
        "percent": 33,
        "done": 1,
        "total": 3,
        "unit": "steps",
        "word": "Running",
        "parts": [
            {"status": "completed", "word": "Done", "count": 1},
            {"status": "in_progress", "word": "Running", "count": 1},
            {"status": "pending", "word": "Ready", "count": 1},
        ],
    }
    assert drawing["svg"].startswith("<svg ")
    assert "<style" not in drawing["svg"]
    assert escape("<Find>") in drawing["svg"]
    assert "Compare." in drawing["svg"], "a step without a title is shown by its instructions"
    assert "asks" not in drawing
    assert drawing["next"]["tool"] == "get_plan_status"


async def test_draw_map_shows_a_stalled_step_but_writes_no_audit_entry(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    await agent.take(plan)
    before = await world.entries(agent.org_id, plan["planId"])
    world.clock.advance(minutes=31)
    drawing = await drawn(agent, plan)
    assert [part["status"] for part in drawing["progress"]["parts"]] == ["stalled"]
    assert await world.entries(agent.org_id, plan["planId"]) == before


async def test_draw_map_returns_open_review_with_the_call_to_decide(agent: AgentClient) -> None:
    plan = await agent.plan([make_step(title="Compare"), make_step()])
    taken = await agent.take(plan)
    review = await agent.call(
        "request_user_review",
        stepId=taken["stepId"],
        summary="Is it right?",
        questions=["Which?", "Why?"],
        resultSummary={"found": "x" * 5_000},
    )
    asks = (await drawn(agent, plan))["asks"]
    assert asks["title"] == "Decision needed: step 1, Compare"
    assert asks["summary"] == "Is it right?\n? Which?\n? Why?"
    assert asks["result"].startswith('{"found"')
    assert len(asks["result"]) == 4_000
    assert (asks["requestedBy"], asks["reviewUrl"]) == ("ann", review["reviewUrl"])
    pat = agent.acting_as("pat")
    await pat.call(asks["tool"], **asks["args"], decision="approve")
    assert (await drawn(agent, plan))["progress"]["done"] == 1


async def test_map_of_failed_plan_shows_failure_reason_and_ended_status(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    decision = {"planId": plan["planId"], "decision": "reject", "feedback": "Wrong river."}
    await agent.call("submit_user_decision", **decision)
    drawing = await drawn(agent, plan)
    assert drawing["over"] is True
    assert drawing["reason"] == "rejected by ann: Wrong river."


async def test_draw_map_suggests_feedback_call_while_run_awaits_feedback(
    world: OrgEnv, agent: AgentClient
) -> None:
    run = await agent.run()
    drawing = await agent.call("draw_map", runId=run["runId"])
    assert "asks" not in drawing
    assert (drawing["progress"]["done"], drawing["progress"]["unit"]) == (0, "stages")
    await agent.work_off(run)
    drawing = await agent.call("draw_map", runId=run["runId"])
    assert drawing["status"] == "awaiting_feedback"
    asks = drawing["asks"]
    assert (asks["title"], asks["about"]) == ("Feedback needed: Scope", "the stage Scope")
    await agent.call(asks["tool"], **asks["args"], feedback="Lakes too.")
    entries = await world.entries(agent.org_id, run["runId"])
    (feedback_entry,) = [
        details
        for entry in entries
        if (details := json.loads(entry.details)).get("action") == "stage_feedback"
    ]
    assert feedback_entry["place"] == "app"
    drawing = await agent.call("draw_map", runId=run["runId"])
    assert "asks" not in drawing
    assert "Lakes too." in drawing["svg"]


async def test_draw_map_of_a_workflow_shows_no_progress(agent: AgentClient) -> None:
    drawing = await agent.call("draw_map", dagSlug="deep-research")
    assert "progress" not in drawing
    assert drawing["svg"].count('class="step"') == 4
    assert drawing["next"]["args"] == {"dagSlug": "deep-research"}


async def test_draw_map_omits_an_svg_that_the_client_already_has(agent: AgentClient) -> None:
    plan = await agent.plan()
    seen = await drawn(agent, plan, width=700)
    same = await drawn(agent, plan, width=700, seen=seen["version"])
    assert same == {"version": seen["version"], "unchanged": True, "next": seen["next"]}
    assert "svg" in await drawn(agent, plan, width=300, seen=seen["version"])
    await agent.take(plan)
    assert "svg" in await drawn(agent, plan, width=700, seen=seen["version"])


async def test_draw_map_svg_fits_requested_width(agent: AgentClient) -> None:
    plan = await agent.plan(10)
    wide, narrow = [(await drawn(agent, plan, width=width))["svg"] for width in (1_200, 300)]
    assert _width(narrow) <= 300 < _width(wide) <= 1_200


def _width(svg: str) -> int:
    return int(svg.split(' width="', 1)[1].split('"', 1)[0])


async def test_draw_map_omits_large_svg_unless_detail_is_requested(agent: AgentClient) -> None:
    plan = await agent.plan(200)
    short = await drawn(agent, plan)
    assert len(json.dumps(short)) < 48_000
    assert short["svg"] is None
    assert short["progress"]["total"] == 200
    get = short["cut"]["get"]
    detail = await agent.call(get["tool"], **get["args"])
    assert detail["svg"].count('class="step"') == 200
    assert detail["version"] == short["version"]


async def test_draw_map_without_id_draws_the_newest_run(agent: AgentClient) -> None:
    assert (await agent.refused("draw_map"))["code"] == "NOT_FOUND"
    await agent.run(name="First")
    await agent.run(name="Last")
    assert (await agent.call("draw_map"))["name"] == "Last"
    assert (await agent.call("draw_map", dagSlug="dialectic"))["name"] != "Last"
    assert (await agent.refused("draw_map", width=9))["code"] == "INVALID_INPUT"
