"""Effects of `submit_step_result`: the step completes, and its conditions change the plan."""

import json
from typing import Any

import pytest

from org_env import AgentClient, OrgEnv, branch_condition, make_step


async def test_submit_step_result_returns_status_of_step_and_plan(agent: AgentClient) -> None:
    plan = await agent.plan(3)
    reply = await agent.submit(await agent.take(plan))
    assert reply == {
        "planId": plan["planId"],
        "stepId": plan["stepIds"][0],
        "stepStatus": "completed",
        "planStatus": "executing",
        "progress": {"percent": 33, "done": 1, "total": 3},
        "branches": [],
        "next": {
            "tool": "get_next_step",
            "args": {"planId": plan["planId"]},
            "why": "Claim the next step.",
        },
    }


RESULTS: list[Any] = [
    *("a text", 'it\'s \\ "so" $1 %s ☃ \u2028'),
    {"river": "Nile", "km": 6650, "share": 0.1, "sure": True, "none": None},
    *([1, 2.5, "x", [], {}], 0, False, 1.5e300, ""),
]


@pytest.mark.parametrize("result", RESULTS, ids=str)
async def test_submit_step_result_stores_result_unchanged(
    world: OrgEnv,
    agent: AgentClient,
    result: Any,  # noqa: ANN401 - anything
) -> None:
    plan = await agent.plan(2)
    more = {"confidence": 0.1, "outputFormattingNotes": "Bold."}
    await agent.submit(await agent.take(plan), result, stepExecutionReport=[result], **more)
    rows = await world.stored(agent.org_id, plan["planId"])
    stored = rows["step"][plan["stepIds"][0]]
    assert json.dumps(stored["result_summary"]) == json.dumps(result)
    assert stored["report"] == [result]
    assert (stored["confidence"], stored["formatting_notes"]) == (0.1, "Bold.")
    (shown,) = (await agent.status(plan))["completedSteps"]
    assert shown["resultSummary"] == result


@pytest.mark.parametrize("attempt", [0, 10**12])
async def test_result_with_wrong_attempt_is_refused_but_stored(
    world: OrgEnv, agent: AgentClient, attempt: int
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    late = {"stepId": taken["stepId"], "attempt": attempt, "resultSummary": {"late": True}}
    late["usage"] = {"inputTokens": 5}
    error = await agent.refused("submit_step_result", **late)
    assert (error["code"], error["next"]["tool"]) == ("STALE_ATTEMPT", "get_next_step")
    details = error["details"]
    assert (details["attempt"], details["currentAttempt"]) == (min(attempt, 2**31 - 1), 1)
    rows = await world.stored(agent.org_id, plan["planId"])
    artifact = rows["artifact"][details["artifactId"]]
    assert (artifact["superseded"], artifact["step_id"]) == (True, taken["stepId"])
    assert artifact["content"]["result_summary"] == {"late": True}  # type: ignore[call-overload, index]  # an object
    (listed,) = (await agent.call("get_research_context", planId=plan["planId"]))["artifacts"]
    assert (listed["artifactId"], listed["superseded"]) == (details["artifactId"], True)
    assert (await agent.submit(taken))["planStatus"] == "completed"


async def test_result_after_the_plan_ended_is_refused_but_stored(agent: AgentClient) -> None:
    plan = await agent.plan(2)
    mine = await agent.take(plan, sessionId="mine")
    await agent.take(plan, sessionId="other")
    await agent.modify(plan, "cancel_plan", reason="enough")
    held = {"stepId": mine["stepId"], "sessionId": "mine", "resultSummary": "two days of work"}
    error = await agent.refused("submit_step_result", **held, usage={"inputTokens": 7})
    assert error["code"] == "PLAN_TERMINAL"
    assert "is stored as an artifact of the step" in error["message"]
    named = ("copy_plan", {"planId": plan["planId"]})
    assert (error["next"]["tool"], error["next"]["args"]) == named
    details = error["details"]
    assert (details["stepId"], details["reason"]) == (mine["stepId"], "enough")
    artifact = await agent.call("get_artifact", artifactId=details["artifactId"])
    assert "two days of work" in str(artifact["content"])
    context = await agent.call("get_step_context", stepId=mine["stepId"])
    assert [left["artifactId"] for left in context["soFar"]] == [details["artifactId"]]
    ended = await agent.call("get_next_step", planId=plan["planId"])
    assert (ended["next"]["tool"], ended["next"]["args"]) == named


@pytest.mark.parametrize("by", ["dead holder", "stranger"])
async def test_result_without_attempt_is_accepted_only_from_current_holder(
    agent: AgentClient, by: str
) -> None:
    plan = await agent.plan([make_step(stallMinutes=1)])
    await agent.take(plan, sessionId="dead holder")
    await agent.modify(plan, "fail_step", stepId=plan["stepIds"][0], reason="lost", retry=True)
    taken = await agent.take(plan, sessionId="holder")
    theirs = {"stepId": taken["stepId"], "sessionId": by, "resultSummary": "theirs"}
    error = await agent.refused("submit_step_result", **theirs)
    assert (error["code"], error["details"]["currentAttempt"]) == ("STALE_ATTEMPT", 2)
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    (left,) = context["soFar"]
    assert left["artifactId"] == error["details"]["artifactId"]
    assert left["content"]["result_summary"] == "theirs"
    mine = {"stepId": taken["stepId"], "sessionId": "holder", "resultSummary": "mine"}
    assert (await agent.call("submit_step_result", **mine))["planStatus"] == "completed"


async def test_result_that_violates_schema_is_refused_with_errors(agent: AgentClient) -> None:
    schema = {"type": "object", "required": ["river"], "properties": {"km": {"type": "integer"}}}
    plan = await agent.plan([make_step(resultSchema=schema)])
    taken = await agent.take(plan)
    wrong = {"stepId": taken["stepId"], "resultSummary": {"km": "long"}}
    error = await agent.refused("submit_step_result", **wrong)
    assert error["code"] == "INVALID_INPUT"
    assert len(error["details"]["missing"]) == 2
    assert error["details"]["resultSchema"] == schema
    assert (await agent.status(plan))["activeSteps"][0]["status"] == "in_progress"
    assert (await agent.submit(taken, {"river": "Nile"}))["planStatus"] == "completed"


async def test_skip_to_condition_skips_steps_up_to_the_target(agent: AgentClient) -> None:
    condition = branch_condition(1, "confidence < 0.5", "skip_to", targetStepOrder=4)
    plan = await agent.plan(4, branchingConditions=[condition])
    reply = await agent.submit(await agent.take(plan), confidence=0.2)
    (branch,) = reply["branches"]
    assert (branch["action"], branch["targetStepId"]) == ("skip_to", plan["stepIds"][3])
    assert branch["skippedStepIds"] == plan["stepIds"][1:3]
    assert reply["progress"] == {"percent": 75, "done": 3, "total": 4}
    assert (await agent.take(plan))["stepId"] == plan["stepIds"][3]


async def test_condition_that_cannot_be_evaluated_is_reported_and_ignored(
    agent: AgentClient,
) -> None:
    condition = branch_condition(1, "result.sources > 1", "fail")
    plan = await agent.plan(2, branchingConditions=[condition])
    reply = await agent.submit(await agent.take(plan), {"no": "sources"})
    assert (reply["planStatus"], reply["branches"]) == ("executing", [])
    (error,) = reply["conditionErrors"]
    assert error["outcome"] == "error"
    assert error["error"]
