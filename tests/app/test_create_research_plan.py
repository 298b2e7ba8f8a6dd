"""Plans created by `create_research_plan`, completely or not at all."""

import json
from typing import Any

import pytest

from org_env import AgentClient, OrgEnv, make_step

NAMED = {"name": "Rivers", "researchQuestion": "Which river is longest?"}


def make_condition(after: int, action: str = "continue", **params: object) -> dict[str, Any]:
    return {
        "afterStepOrder": after,
        "conditionExpression": "confidence < 0.5",
        "ifTrueAction": action,
        **({"actionParams": params} if params else {}),
    }


async def test_create_research_plan_returns_plan_and_step_ids(agent: AgentClient) -> None:
    steps = [make_step("Look.", title="First"), make_step("Compare.")]
    reply = await agent.call("create_research_plan", **NAMED, steps=steps)
    plan_id, step_ids = reply["planId"], reply["stepIds"]
    assert reply == {
        "planId": plan_id,
        "name": "Rivers",
        "status": "planning",
        "stepIds": step_ids,
        "firstStep": {
            "stepId": step_ids[0],
            "stepOrder": 1,
            "stepType": "search",
            "title": "First",
            "instructions": "Look.",
        },
        "revision": 1,
        "next": {
            "tool": "get_next_step",
            "args": {"planId": plan_id},
            "why": "Claim the first step.",
        },
    }
    assert len(set(step_ids)) == 2


async def test_create_research_plan_stores_plan_steps_and_conditions(
    world: OrgEnv, agent: AgentClient
) -> None:
    schema = {"type": "object"}
    steps = [
        make_step(stallMinutes=0.5, resultSchema=schema),
        {"stepType": "custom", "instructions": "b"},
    ]
    plan = await agent.plan(
        steps,
        branchingConditions=[make_condition(1, "skip_to", targetStepOrder=2)],
        outputFormattingNotes="As a table.",
        stallMinutes=10,
        sessionId="s",
    )
    rows = await world.stored(agent.org_id, plan["planId"])
    stored = rows["plan"][plan["planId"]]
    assert (stored["status"], stored["stall_seconds"], stored["formatting_notes"]) == (
        "planning",
        600,
        "As a table.",
    )
    assert (stored["created_by"], stored["created_at"]) == ("ann", world.clock.now.isoformat())
    step_ids = plan["stepIds"]
    first, second = (rows["step"][step_id] for step_id in step_ids)
    assert (first["order"], first["type"], first["stall_seconds"]) == (1, "search", 30)
    assert first["result_schema"] == schema
    assert (second["order"], second["status"], second["attempt"]) == (2, "pending", 1)
    (condition,) = rows["condition"].values()
    assert condition["step_id"] == step_ids[0]
    assert condition["target_step_id"] == step_ids[1]
    assert set(rows["session"]) == {"s"}
    (entry,) = await world.entries(agent.org_id, plan["planId"])
    details = json.loads(entry.details)
    assert (entry.event, details["action"], details["steps"]) == ("plan_modified", "created", 2)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"branchingConditions": [make_condition(3)]}, "INVALID_STEP_REFERENCE"),
    ({"branchingConditions": [make_condition(1, "skip_to")]}, "INVALID_STEP_REFERENCE"),
    ({"branchingConditions": [make_condition(1, "add_steps")]}, "INVALID_INPUT"),
    ({"branchingConditions": [make_condition(1, "jump")]}, "INVALID_INPUT"),
    (
        {"branchingConditions": [{**make_condition(1), "conditionExpression": "x <"}]},
        "BAD_EXPRESSION",
    ),
    (
        {"branchingConditions": [{**make_condition(1), "conditionExpression": "sources > 1"}]},
        "BAD_EXPRESSION",
    ),
    (
        {"branchingConditions": [make_condition(1, "add_steps", steps=[make_step()] * 201)]},
        "TOO_LARGE",
    ),
]


@pytest.mark.parametrize(("asked", "code"), REFUSED, ids=lambda value: str(value)[:60])
async def test_create_research_plan_with_invalid_arguments_creates_nothing(
    world: OrgEnv, agent: AgentClient, asked: dict[str, Any], code: str
) -> None:
    error = await agent.refused(
        "create_research_plan", **{**NAMED, "steps": [make_step(), make_step()], **asked}
    )
    assert error["code"] == code
    assert (await agent.call("list_active_plans"))["total"] == 0
    (rows,) = await world.database.read_org(agent.org_id, "select from audit_entry")
    assert rows == []


async def test_new_plan_refers_to_latest_skill_execution_of_the_session(
    world: OrgEnv, agent: AgentClient
) -> None:
    await agent.call("start_skill", name="survey", sessionId="s")
    world.clock.advance(minutes=1)
    latest = await agent.call("start_skill", name="survey", sessionId="s")
    await agent.call("start_skill", name="survey", sessionId="another")
    linked = await agent.plan(1, sessionId="s")
    unlinked = await agent.plan(1)
    for plan, expected in ((linked, latest["skillExecutionId"]), (unlinked, None)):
        rows = await world.stored(agent.org_id, plan["planId"])
        assert rows["plan"][plan["planId"]]["skill_execution_id"] == expected
    await agent.work_through(linked)
    done = await agent.call("get_next_step", planId=linked["planId"])
    assert done["outputMediaType"] == "text/markdown"
    assert done["outputFormattingInstructions"] == "Short sentences."
