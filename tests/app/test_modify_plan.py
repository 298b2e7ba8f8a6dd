"""Changes by `modify_plan`: atomic, audited, and refused if the plan is in review or closed."""

import json

import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from waybook.store.audit import changes_of


async def modify(agent: AgentClient, plan: Body, *modifications: Body, **more: object) -> Body:
    args = {"planId": plan["planId"], "modifications": list(modifications)}
    return await agent.call("modify_plan", **args, **more)


async def refused(agent: AgentClient, plan: Body, *modifications: Body, **more: object) -> Body:
    args = {"planId": plan["planId"], "modifications": list(modifications)}
    return await agent.refused("modify_plan", **args, **more)


def ids(reply: Body) -> list[str]:
    return [step["stepId"] for step in reply["steps"]]


async def test_replies_about_canceled_plan_show_cancellation_and_no_open_review(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Well?")
    reply = await modify(agent, plan, {"cancel_plan": "not needed"})
    assert (reply["outcome"], reply["next"]["tool"]) == ("canceled", "get_research_context")
    named = {"planId": plan["planId"]}
    for tool in ("get_next_step", "get_research_context", "get_plan_status", "get_run_progress"):
        shown = await agent.call(tool, **named)
        assert shown["outcome"] == "canceled", tool
        assert shown.get("openReview") is None, tool


async def test_add_steps_inserts_step_at_requested_position(agent: AgentClient) -> None:
    plan = await agent.plan(2)
    a, b = plan["stepIds"]
    reply = await modify(
        agent, plan, {"action": "add_steps", "steps": [make_step()], "insertAfterOrder": 1}
    )
    assert [ids(reply)[0], ids(reply)[2]] == [a, b]
    assert [step["stepOrder"] for step in reply["steps"]] == [1, 2, 3]
    assert (reply["revision"], reply["applied"], reply["planStatus"]) == (2, 1, "planning")
    assert reply["steps"][1] == {
        "stepId": ids(reply)[1],
        "stepOrder": 2,
        "stepType": "search",
        "status": "pending",
        "attempt": 1,
    }
    appended = await modify(agent, plan, {"action": "add_steps", "steps": [make_step()]})
    assert ids(appended)[:3] == ids(reply)
    first = await modify(
        agent, plan, {"action": "add_steps", "steps": [make_step()], "insertAfterOrder": 0}
    )
    assert ids(first)[1:] == ids(appended)


async def test_modify_plan_writes_an_audit_entry_for_each_modification(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(4)
    a, b, c, d = plan["stepIds"]
    reply = await modify(
        agent,
        plan,
        {"action": "add_steps", "steps": [make_step("New.")]},
        {"action": "remove_step", "stepId": b},
        {"action": "update_step_instructions", "stepId": c, "instructions": "Better."},
        {"action": "fail_step", "stepId": a, "reason": "no sources", "attempt": 1},
        {"action": "retry_step", "stepId": a},
        {"action": "fail_step", "stepId": d, "reason": "again", "retry": True},
        modificationRationale="Because.",
    )
    assert ids(reply)[:3] == [a, c, d]
    assert [step["status"] for step in reply["steps"]] == ["pending"] * 4
    assert [step["attempt"] for step in reply["steps"]] == [2, 1, 2, 1]
    assert reply["revision"] == 7
    entries = await world.entries(agent.org_id, plan["planId"])
    payloads = [json.loads(entry.details) for entry in entries if entry.event == "plan_modified"]
    assert [details["action"] for details in payloads[1:]] == [
        "add_steps",
        "remove_step",
        "update_step_instructions",
        "fail_step",
        "retry_step",
        "fail_step",
    ]
    assert {details["rationale"] for details in payloads[1:]} == {"Because."}
    rewritten = next(d for d in payloads if d["action"] == "update_step_instructions")
    (change,) = [c for c in changes_of(rewritten) if c.field == "instructions"]
    assert (change.old, change.new) == ("Look up 3.", "Better.")
    assert [e.event for e in entries].count("step_failed") == 2
    assert payloads[1]["scope"] == {"before": 4, "added": 1, "after": 5}


async def test_failure_reason_of_maximum_length_is_stored_whole(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan, reason = await agent.plan(1), "r" * 20_000
    failing = {"action": "fail_step", "stepId": plan["stepIds"][0], "reason": reason}
    await modify(agent, plan, failing)
    rows = await world.stored(agent.org_id, plan["planId"])
    assert reason in str(rows)
    error = await refused(agent, plan, {**failing, "reason": f"{reason}r"})
    assert error["code"] == "TOO_LARGE"


async def test_modify_plan_with_an_invalid_modification_changes_nothing(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    before = await world.stored(agent.org_id, plan["planId"])
    error = await refused(
        agent,
        plan,
        {"action": "add_steps", "steps": [make_step()]},
        {"action": "remove_step", "stepId": "nope"},
    )
    assert (error["code"], error["next"]["tool"]) == ("INVALID_STEP_REFERENCE", "get_plan_status")
    assert await world.stored(agent.org_id, plan["planId"]) == before


async def test_modify_plan_dry_run_shows_difference_and_changes_nothing(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    before = await world.stored(agent.org_id, plan["planId"])
    reply = await modify(
        agent, plan, {"action": "remove_step", "stepId": plan["stepIds"][0]}, dryRun=True
    )
    assert reply["dryRun"] is True
    assert ids(reply) == plan["stepIds"][1:]
    assert {change["field"] for change in reply["diff"]} >= {"*", "order", "revision"}
    assert await world.stored(agent.org_id, plan["planId"]) == before


async def test_modify_plan_with_outdated_revision_returns_stale_plan(agent: AgentClient) -> None:
    plan = await agent.plan(2)
    adding = {"action": "add_steps", "steps": [make_step()]}
    assert (await modify(agent, plan, adding, expectedRevision=1))["revision"] == 2
    error = await refused(agent, plan, adding, expectedRevision=1)
    assert (error["code"], error["details"]) == (
        "STALE_PLAN",
        {"revision": 2, "expectedRevision": 1},
    )
    assert error["next"]["tool"] == "get_plan_status"


WRONG: list[tuple[Body, str]] = [
    ({"add_steps": {}}, "add_steps.steps: is missing"),
    ({"remove_step": {}}, "remove_step.stepId: is missing"),
    ({"update_step_instructions": {"stepId": "x"}}, ".instructions: is missing"),
    ({"action": "add_steps"}, "add_steps.steps: is missing"),
    ({"action": "reorder_steps"}, "reorder_steps.stepIds: is missing"),
    ({"action": "fail_step", "stepId": "x"}, "fail_step.reason: is missing"),
    ({"action": "remove_step", "stepId": "x", "reason": "y"}, ".reason: unknown argument"),
    ({"action": "delete"}, "unknown action; use add_steps, remove_step"),
    ({"cancel": "late"}, "unknown action; use add_steps, remove_step"),
]


@pytest.mark.parametrize(("modification", "said"), WRONG, ids=str)
async def test_error_for_malformed_modification_lists_the_malformed_fields(
    agent: AgentClient, modification: Body, said: str
) -> None:
    plan = await agent.plan()
    error = await refused(agent, plan, modification)
    assert error["code"] == "INVALID_INPUT"
    assert said in error["message"]
    assert error["details"]["faults"][0]["at"].startswith("modifications.0")
    assert error["next"]["args"]["planId"] == plan["planId"]


async def test_modification_without_action_or_with_several_actions_is_refused(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(2)
    both = {"remove_step": plan["stepIds"][0], "cancel_plan": "No longer needed."}
    for modification in ({}, both):
        error = await refused(agent, plan, modification)
        assert error["code"] == "INVALID_INPUT"
        assert "must have exactly one action" in error["message"]


async def _changed_while_held(agent: AgentClient, session: str) -> tuple[Body, Body]:
    """Return a plan and its claimed step; this session then changed the instructions."""
    plan = await agent.plan(1)
    taken = await agent.take(plan, sessionId="holder")
    change = {"action": "update_step_instructions", "stepId": taken["stepId"]}
    await modify(agent, plan, {**change, "instructions": "Better."}, sessionId=session)
    return plan, taken


async def test_result_shows_the_instruction_version_that_the_holder_read(
    agent: AgentClient, world: OrgEnv
) -> None:
    plan, taken = await _changed_while_held(agent, "other")
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    assert (context["answersRevision"], context["instructions"]) == (1, "Better.")
    assert context["next"]["tool"] == "get_next_step"
    assert (await agent.submit(taken, sessionId="holder"))["answersRevision"] == 1
    (done,) = (await agent.status(plan))["completedSteps"]
    assert done["answersRevision"] == 1
    entries = await world.entries(agent.org_id, plan["planId"])
    assert json.loads(entries[-1].details)["answersRevision"] == 1


async def test_holder_that_claims_again_receives_the_changed_instructions(
    agent: AgentClient,
) -> None:
    plan, taken = await _changed_while_held(agent, "other")
    again = await agent.take(plan, sessionId="holder")
    assert (again["stepId"], again["instructions"]) == (taken["stepId"], "Better.")
    assert "answersRevision" not in await agent.submit(again, sessionId="holder")


async def test_holder_that_changes_the_instructions_needs_no_new_claim(agent: AgentClient) -> None:
    _, taken = await _changed_while_held(agent, "holder")
    assert "answersRevision" not in await agent.submit(taken, sessionId="holder")
