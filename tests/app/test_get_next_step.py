"""Replies of `get_next_step`: a step, or the reason why no step is available."""

from org_env import AgentClient, FakeClock, make_step


async def test_get_next_step_returns_every_field_of_a_ready_step(agent: AgentClient) -> None:
    schema = {"type": "object", "required": ["river"]}
    plan = await agent.plan([make_step("Look.", title="First", resultSchema=schema)])
    step_id = plan["stepIds"][0]
    assert await agent.call("get_next_step", planId=plan["planId"]) == {
        "status": "step_ready",
        "planId": plan["planId"],
        "stepId": step_id,
        "stepOrder": 1,
        "stepType": "search",
        "title": "First",
        "instructions": "Look.",
        "attempt": 1,
        "resultSchema": schema,
        "createdBy": "ann",
        "next": {
            "tool": "submit_step_result",
            "args": {"stepId": step_id, "attempt": 1, "takeNext": True},
            "why": "Submit the result.",
        },
    }
    assert (await agent.status(plan))["status"] == "executing"


async def test_get_next_step_lists_holders_if_no_step_is_pending(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(2)
    failed = plan["stepIds"][1]
    await agent.take(plan, sessionId="s")
    await agent.modify(plan, "fail_step", stepId=failed, reason="no sources")
    reply = await agent.acting_as("bob").call("get_next_step", planId=plan["planId"])
    noon = clock.now.isoformat()
    assert (reply["status"], reply["inProgress"], reply["failed"]) == ("no_pending_steps", 1, 1)
    assert reply["steps"][0] == {"stepId": plan["stepIds"][0], "heldBy": "ann", "lastSeenAt": noon}
    assert reply["failedSteps"] == [{"stepId": failed}]
    assert reply["next"]["tool"] == "get_next_step"
    assert reply["next"]["args"]["waitSeconds"] == 55


async def test_get_next_step_returns_open_review_of_plan_awaiting_review(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan)
    review = await agent.call(
        "request_user_review", stepId=taken["stepId"], summary="Right?", questions=["Is it?"]
    )
    reply = await agent.call("get_next_step", planId=plan["planId"])
    assert reply == {
        "status": "awaiting_review",
        "planId": plan["planId"],
        "review": {
            "reviewId": review["reviewId"],
            "stepId": taken["stepId"],
            "summary": "Right?",
            "questions": ["Is it?"],
            "requestedAt": clock.now.isoformat(),
            "requestedBy": "ann",
            "reviewUrl": f"http://127.0.0.1:8750/plans/{plan['planId']}#review",
        },
        "retryAfterSeconds": 30,
        "next": reply["next"],
    }
    assert reply["next"]["tool"] == "get_next_step"
    assert reply["next"]["args"]["waitSeconds"] == 55


async def test_get_next_step_returns_usage_and_formatting_notes_of_ended_plan(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan(2, outputFormattingNotes="As a table.")
    await agent.submit(await agent.take(plan), outputFormattingNotes="In bold.")
    await agent.submit(await agent.take(plan), usage={"inputTokens": 3})
    reply = await agent.call("get_next_step", planId=plan["planId"])
    assert reply == {
        "status": "plan_complete",
        "planId": plan["planId"],
        "planFormattingNotes": "As a table.",
        "stepFormattingNotes": [
            {
                "stepId": plan["stepIds"][0],
                "stepOrder": 1,
                "notes": "In bold.",
                "completedBy": "ann",
                "completedAt": clock.now.isoformat(),
            }
        ],
        "outputs": [],
        "outputMissing": False,
        "usage": {"inputTokens": 3, "outputTokens": 0, "costUsd": 0.0, "results": 1},
        "next": reply["next"],
    }
