"""Sessions: a repeated claim returns the same step, and the audit records a resumption once."""

import asyncio

import pytest

from org_env import AgentClient, Body, OrgEnv


async def events(world: OrgEnv, plan: Body) -> list[tuple[str, str | None]]:
    entries = await world.entries(world.agent.org_id, plan["planId"])
    return [(entry.event, entry.session) for entry in entries]


async def resumptions(world: OrgEnv, plan: Body) -> list[str | None]:
    return [session for event, session in await events(world, plan) if event == "session_resumed"]


async def test_get_next_step_in_same_session_resumes_step(agent: AgentClient) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan, sessionId="mine")
    again = await agent.take(plan, sessionId="mine")
    assert again == {**taken, "resumed": True}


async def test_concurrent_claims_of_a_session_return_the_same_step(agent: AgentClient) -> None:
    plan = await agent.plan(10)
    calls = [agent.take(plan, sessionId="mine") for _ in range(8)]
    assert {taken["stepOrder"] for taken in await asyncio.gather(*calls)} == {1}


async def test_concurrent_calls_of_new_session_record_a_single_resumption(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(sessionId="first")
    await agent.take(plan, sessionId="first")
    args = {"planId": plan["planId"], "sessionId": "second"}
    looks = [agent.call("get_research_context", **args) for _ in range(4)]
    await asyncio.gather(*looks, *[agent.take(plan, sessionId="second") for _ in range(4)])
    assert await resumptions(world, plan) == ["second"]


@pytest.mark.parametrize("tool", ["get_next_step", "modify_plan", "submit_step_result"])
async def test_first_call_of_new_session_with_any_tool_records_resumption(
    world: OrgEnv, agent: AgentClient, tool: str
) -> None:
    plan = await agent.plan(sessionId="first")
    taken = await agent.take(plan, sessionId="first")
    retry = {"action": "retry_step", "stepId": taken["stepId"]}
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    args_by_tool: dict[str, Body] = {
        "get_next_step": {"planId": plan["planId"]},
        "modify_plan": {"planId": plan["planId"], "modifications": [retry]},
        "submit_step_result": {**held, "resultSummary": "x"},
    }
    await agent.call(tool, **args_by_tool[tool], sessionId="second")
    assert await resumptions(world, plan) == ["second"]


async def test_audit_entries_record_actor_channel_and_session(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1, sessionId="s")
    await agent.take(plan, sessionId="s")
    entries = await world.entries(agent.org_id, plan["planId"])
    assert [(e.actor, e.channel, e.session, e.at) for e in entries] == [
        ("ann", "mcp", "s", world.clock.now)
    ] * 2
