"""Replies of the read tools: plan status, plan list, step context and plan context."""

import json

import orjson

from org_env import AgentClient, FakeClock, OrgEnv

#: Fields that a plan's status always contains.
STATUS_FIELDS = {
    *("planId", "name", "status", "derivedStatus", "stalled", "progress", "counts", "totalSteps"),
    *("usage", "currentStep", "activeSteps", "completedSteps", "pendingSteps", "failedSteps"),
    *("stalledSteps", "openReview", "revision", "outcome", "reason", "createdBy", "createdAt"),
    *("state", "next"),
}


async def test_get_plan_status_returns_every_field_of_executing_plan(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(5)
    ids = plan["stepIds"]
    await agent.submit(await agent.take(plan), {"river": "Nile"}, confidence=0.85)
    await agent.take(plan, sessionId="s")
    await agent.take(plan, another=True)
    await agent.modify(plan, "fail_step", stepId=ids[3], reason="no sources")
    status = await agent.status(plan)
    noon = clock.now.isoformat()
    assert set(status) == STATUS_FIELDS
    assert status["planId"] == plan["planId"]
    assert (status["name"], status["status"], status["derivedStatus"]) == (
        "Rivers",
        "executing",
        "executing",
    )
    assert (status["stalled"], status["stalledSteps"], status["outcome"]) == (False, [], None)
    assert (status["progress"], status["counts"], status["totalSteps"]) == (
        20,
        {"done": 1, "total": 5},
        5,
    )
    assert status["currentStep"] == {
        "stepId": ids[1],
        "stepOrder": 2,
        "stepType": "search",
        "status": "in_progress",
        "attempt": 1,
        "heldBy": "ann",
        "sessionId": "s",
        "since": noon,
        "lastSeenAt": noon,
    }
    assert [step["stepId"] for step in status["activeSteps"]] == ids[1:3]
    assert status["completedSteps"] == [
        {
            "stepId": ids[0],
            "stepOrder": 1,
            "stepType": "search",
            "status": "completed",
            "resultSummary": {"river": "Nile"},
            "confidence": 0.85,
            "completedBy": "ann",
            "completedAt": noon,
        }
    ]
    assert status["pendingSteps"] == [
        {"stepId": ids[4], "stepOrder": 5, "stepType": "search", "status": "pending"}
    ]
    assert status["failedSteps"] == [
        {
            "stepId": ids[3],
            "stepOrder": 4,
            "stepType": "search",
            "status": "failed",
            "attempt": 1,
            "reason": "no sources",
        }
    ]
    assert status["revision"] == 2


async def test_list_active_plans_returns_pages_sorted_by_latest_activity(
    agent: AgentClient, clock: FakeClock
) -> None:
    plans = []
    for n in range(5):
        plans.append((await agent.plan(2, name=f"Plan {n}"))["planId"])
        clock.advance(minutes=1)
    await agent.call("get_next_step", planId=plans[0])
    over = await agent.plan(1)
    await agent.work_through(over)
    seen, cursor = [], None
    while True:
        page = await agent.call("list_active_plans", limit=2, cursor=cursor)
        assert page["total"] == 5
        seen += [plan["planId"] for plan in page["plans"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == [plans[0], *plans[:0:-1]]


async def test_list_active_plans_returns_step_counts_and_progress_of_plan(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(4)
    await agent.submit(await agent.take(plan))
    await agent.take(plan)
    await agent.modify(plan, "fail_step", stepId=plan["stepIds"][3], reason="x")
    (listed,) = (await agent.call("list_active_plans"))["plans"]
    assert listed == {
        "planId": plan["planId"],
        "name": "Rivers",
        "status": "executing",
        "state": "Running",
        "progress": 25,
        "counts": {"done": 1, "total": 4, "failed": 1, "inProgress": 1},
        "revision": 2,
        "lastActivityAt": clock.now.isoformat(),
        "createdBy": "ann",
        "createdAt": clock.now.isoformat(),
    }


async def test_list_active_plans_without_open_plans_suggests_creating_a_plan(
    agent: AgentClient,
) -> None:
    page = await agent.call("list_active_plans")
    assert (page["plans"], page["total"], page["nextCursor"]) == ([], 0, None)
    assert page["next"]["tool"] == "create_research_plan"


async def test_get_step_context_lists_earlier_results_nearest_first(agent: AgentClient) -> None:
    plan = await agent.plan(3)
    for text in ("first", "second"):
        await agent.submit(await agent.take(plan), text)
    taken = await agent.take(plan)
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    assert context["instructions"] == "Look up 3."
    assert context["researchQuestion"] == "Which river is longest?"
    assert [e["resultSummary"] for e in context["earlierResults"]] == ["second", "first"]
    assert context["next"]["args"] == {"stepId": taken["stepId"], "attempt": 1, "takeNext": True}
    earlier = await agent.call("get_step_context", stepId=plan["stepIds"][0])
    assert earlier["result"] == {"resultSummary": "first"}
    assert earlier["earlierResults"] == []


async def test_research_context_returns_full_state_to_new_session(
    world: OrgEnv, agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(3, outputFormattingNotes="As a table.", sessionId="s")
    first = await agent.take(plan, sessionId="s")
    clock.advance(minutes=2)
    await agent.submit(first, {"river": "Nile"}, confidence=0.9, sessionId="s")
    second = await agent.take(plan, sessionId="s")
    await agent.call(
        "request_user_review", stepId=second["stepId"], summary="Right?", sessionId="s"
    )
    context = await agent.call("get_research_context", planId=plan["planId"])
    assert context["researchQuestion"] == "Which river is longest?"
    assert context["planFormattingNotes"] == "As a table."
    assert context["progress"] == {"percent": 33, "done": 1, "total": 3}
    done, waiting, pending = context["steps"]
    assert (done["resultSummary"], done["confidence"]) == ({"river": "Nile"}, 0.9)
    assert "lastActivityAt" not in done
    assert (waiting["status"], waiting["heldBy"]) == ("awaiting_input", "ann")
    assert (pending["status"], "lastActivityAt" in pending) == ("pending", False)
    assert context["openReview"]["summary"] == "Right?"
    events = [event["event"] for event in context["recentEvents"]]
    assert events == [
        "user_reviewed",
        "step_started",
        "step_completed",
        "step_started",
        "plan_modified",
    ]
    assert context["seq"] == len(await world.entries(agent.org_id, plan["planId"]))


async def test_research_context_with_since_argument_returns_only_changes(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(5)
    await agent.submit(await agent.take(plan), "old")
    seq = (await agent.call("get_research_context", planId=plan["planId"]))["seq"]
    await agent.take(plan)
    news = await agent.call("get_research_context", planId=plan["planId"], since=seq)
    assert [step["stepOrder"] for step in news["steps"]] == [2]
    assert [event["seq"] for event in news["recentEvents"]] == [seq + 1]
    assert "researchQuestion" not in news
    nothing = await agent.call("get_research_context", planId=plan["planId"], since=news["seq"])
    assert (nothing["steps"], nothing["recentEvents"]) == ([], [])


async def test_replies_about_a_plan_of_maximum_size_have_limited_size(agent: AgentClient) -> None:
    step = {"stepType": "synthesize", "title": "é" * 200, "instructions": "z" * 4_000}
    plan = await agent.plan([step] * 200)
    named = {"planId": plan["planId"]}
    for n in range(120):
        taken = await agent.take(plan, sessionId=f"session {n}")
        if n < 60:
            await agent.submit(taken, "x" * 3_000)
    rewriting = {"action": "update_step_instructions", "instructions": "x"}
    rewriting["stepId"] = plan["stepIds"][0]
    context = await agent.call("get_research_context", **named)
    assert len(orjson.dumps(context)) <= 24_000
    assert len(context["steps"]) + context["cut"]["steps"]["left"] == 200
    replies = [
        await agent.call("get_plan_status", **named),
        await agent.call("modify_plan", **named, modifications=[rewriting]),
    ]
    detail = await agent.call("get_plan_status", **named, detail=True)
    for _ in range(80):
        await agent.take(plan)
    replies.append(await agent.call("get_next_step", **named))
    assert replies[-1]["status"] == "no_pending_steps"
    for reply in replies:
        assert len(json.dumps(reply, ensure_ascii=False).encode()) < 48_000
    for reply in replies[:2]:
        assert reply["cut"]["get"]["args"]["detail"] is True
    status = replies[0]
    for name, left in status["cut"]["left"].items():
        assert len(detail[name]) == len(status[name]) + left
    assert status["counts"] == {"done": 60, "total": 200}


async def test_start_and_completion_of_skill_are_recorded_in_audit(
    world: OrgEnv, agent: AgentClient
) -> None:
    listed = await agent.call("list_skills")
    assert listed["skills"] == [
        {"name": "survey", "description": "Look around.", "outputMediaType": "text/markdown"}
    ]
    started = await agent.call("start_skill", name="survey", sessionId="s")
    skill_id = started["skillExecutionId"]
    assert started == {
        "skillExecutionId": skill_id,
        "name": "survey",
        "status": "started",
        "instructions": "Look at everything once.",
        "outputMediaType": "text/markdown",
        "outputFormattingInstructions": "Short sentences.",
        "next": started["next"],
    }
    done = await agent.call("complete_skill", skillExecutionId=skill_id, outcome="Seen.")
    assert (done["status"], done["name"]) == ("completed", "survey")
    entries = await world.entries(agent.org_id, skill_id)
    assert [entry.event for entry in entries] == ["skill_started", "skill_completed"]
    error = await agent.refused("complete_skill", skillExecutionId=skill_id)
    assert (error["code"], error["next"]["tool"]) == ("INVALID_TRANSITION", "list_active_plans")


async def test_start_skill_with_unknown_name_suggests_list_skills(agent: AgentClient) -> None:
    error = await agent.refused("start_skill", name="nope", sessionId="s")
    assert (error["code"], error["next"]["tool"]) == ("NOT_FOUND", "list_skills")
