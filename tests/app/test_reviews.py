"""Reviews by `request_user_review` and `submit_user_decision`: a plan pauses until the decision."""

import json

import pytest

from org_env import AgentClient, Body, OrgEnv
from waybook.core.decision_context import Channel


async def under_review(agent: AgentClient, steps: int = 2, **more: object) -> tuple[Body, Body]:
    """Create a plan whose first step awaits review; return the plan and the step."""
    plan = await agent.plan(steps)
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?", **more)
    return plan, taken


async def decide(agent: AgentClient, plan: Body, decision: str, **more: object) -> Body:
    args = {"planId": plan["planId"], "decision": decision}
    return await agent.call("submit_user_decision", **args, **more)


async def test_request_user_review_pauses_step_and_plan(world: OrgEnv, agent: AgentClient) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan)
    reply = await agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    assert reply == {
        "planId": plan["planId"],
        "reviewId": reply["reviewId"],
        "stepId": taken["stepId"],
        "stepStatus": "awaiting_input",
        "planStatus": "awaiting_review",
        "reviewUrl": f"http://127.0.0.1:8750/plans/{plan['planId']}#review",
        "next": reply["next"],
    }
    assert reply["next"]["tool"] == "get_next_step"
    assert reply["next"]["args"]["waitSeconds"] == 55
    last = (await world.entries(agent.org_id, plan["planId"]))[-1]
    assert (last.event, json.loads(last.details)["action"]) == ("user_reviewed", "review_requested")


async def test_modify_decision_adds_feedback_to_step_and_increases_attempt(
    agent: AgentClient,
) -> None:
    plan, taken = await under_review(agent)
    reply = await decide(agent, plan, "modify", feedback="Add sources.")
    assert (reply["stepStatus"], reply["planStatus"]) == ("in_progress", "executing")
    assert "attempt" not in reply
    assert reply["next"]["args"] == {"planId": plan["planId"]}
    again = await agent.take(plan)
    assert (again["stepId"], again["attempt"]) == (taken["stepId"], 2)
    assert again["instructions"] == "Look up 1.\n\n---\n\nUser feedback: Add sources."
    late = {"stepId": taken["stepId"], "attempt": 1, "resultSummary": "old"}
    assert (await agent.refused("submit_step_result", **late))["code"] == "STALE_ATTEMPT"


async def test_session_that_submits_modify_decision_remains_the_holder(agent: AgentClient) -> None:
    plan, named = await agent.plan(2), {"sessionId": "monday"}
    taken = await agent.take(plan, **named)
    request = {"stepId": taken["stepId"], "summary": "Right?", **named}
    await agent.call("request_user_review", **request)
    reply = await decide(agent, plan, "modify", feedback="Add sources.", **named)
    assert reply["next"]["args"] == {"stepId": taken["stepId"], "attempt": 2, "takeNext": True}
    assert (await agent.take(plan, sessionId="other"))["stepOrder"] == 2


@pytest.mark.parametrize("feedback", [{}, {"feedback": " \n"}])
async def test_modify_decision_without_feedback_adds_a_default_note(
    agent: AgentClient, feedback: Body
) -> None:
    plan, _ = await under_review(agent)
    args = {"planId": plan["planId"], "decision": "modify", **feedback}
    reply = await agent.call("submit_user_decision", **args)
    assert reply["stepStatus"] == "in_progress"
    assert (await agent.take(plan))["instructions"].endswith(
        "(The reviewer gave no details. Check the step and do it again.)"
    )


async def test_decision_with_step_id_instead_of_plan_id_is_accepted(agent: AgentClient) -> None:
    _, taken = await under_review(agent)
    args = {"stepId": taken["stepId"], "decision": "skip"}
    assert (await agent.call("submit_user_decision", **args))["stepStatus"] == "skipped"


async def test_decision_without_plan_or_step_id_returns_invalid_input(agent: AgentClient) -> None:
    error = await agent.refused("submit_user_decision", decision="approve")
    assert error["code"] == "INVALID_INPUT"
    assert "planId" in error["message"]


@pytest.mark.parametrize("first", ["reject", "modify"])
async def test_error_for_second_decision_shows_the_first_decision(
    agent: AgentClient, world: OrgEnv, first: str
) -> None:
    plan, _ = await under_review(agent, steps=1)
    pat = agent.acting_as("pat", channel=Channel.DASHBOARD)
    await decide(pat, plan, first, feedback="So.")
    args = {"planId": plan["planId"], "decision": "approve"}
    error = await agent.refused("submit_user_decision", **args)
    assert (error["code"], error["next"]["tool"]) == ("NOT_AWAITING_REVIEW", "get_next_step")
    assert error["details"] == {
        "decision": first,
        "decidedBy": "pat",
        "decidedVia": "dashboard",
        "decidedAt": world.clock.now.isoformat(),
        "feedback": "So.",
    }
