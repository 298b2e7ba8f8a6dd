"""Sessions: a session gets its step again; resuming a plan is recorded once.

Proves the design decisions A10 and A27.
"""

import asyncio

import pytest

from decision_proofs import decision
from org_env import AgentClient, Body, OrgEnv


async def events(world: OrgEnv, plan: Body) -> list[tuple[str, str | None]]:
    entries = await world.entries(world.agent.org_id, plan["planId"])
    return [(entry.event, entry.session) for entry in entries]


async def resumptions(world: OrgEnv, plan: Body) -> list[str | None]:
    return [session for event, session in await events(world, plan) if event == "session_resumed"]


@decision("A10")
async def test_get_next_step_in_same_session_resumes_step(agent: AgentClient) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan, sessionId="mine")
    again = await agent.take(plan, sessionId="mine")
    assert again == {**taken, "resumed": True}


@decision("A10")
async def test_session_that_asks_for_another_step_gets_a_second_step(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    first = await agent.take(plan, sessionId="mine")
    second = await agent.take(plan, sessionId="mine", another=True)
    assert (first["stepOrder"], second["stepOrder"]) == (1, 2)
    assert (await agent.take(plan, sessionId="mine"))["stepId"] == first["stepId"]


@decision("A10")
async def test_each_get_next_step_call_without_session_returns_another_step(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    assert [(await agent.take(plan))["stepOrder"] for _ in range(3)] == [1, 2, 3]


@decision("A10")
async def test_get_next_step_with_same_idempotency_key_returns_same_step(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    first = await agent.take(plan, idempotencyKey="k")
    assert await agent.take(plan, idempotencyKey="k") == {**first, "replayed": True}
    assert (await agent.take(plan))["stepOrder"] == 2


@decision("A10")
async def test_users_with_same_session_name_get_different_steps(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    await agent.take(plan, sessionId="1")
    bob = agent.acting_as("bob")
    assert (await bob.take(plan, sessionId="1"))["stepOrder"] == 2


@decision("A10")
async def test_concurrent_claims_of_a_session_return_the_same_step(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(10)
    calls = [agent.take(plan, sessionId="mine") for _ in range(8)]
    assert {taken["stepOrder"] for taken in await asyncio.gather(*calls)} == {1}


@decision("A10")
async def test_session_gets_next_step_after_submitting_result(agent: AgentClient) -> None:
    plan = await agent.plan()
    await agent.submit(await agent.take(plan, sessionId="mine"), sessionId="mine")
    taken = await agent.take(plan, sessionId="mine")
    assert (taken["stepOrder"], "resumed" in taken) == (2, False)


@decision("A10")
async def test_get_next_step_never_resumes_a_step_of_another_user(
    agent: AgentClient,
) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan, sessionId="mine")
    reclaiming = [{"action": "retry_step", "stepId": taken["stepId"]}]
    await agent.call("modify_plan", planId=plan["planId"], modifications=reclaiming)
    bob = agent.acting_as("bob")
    assert (await bob.take(plan, sessionId="his"))["attempt"] == 2
    assert (await agent.take(plan, sessionId="mine"))["stepOrder"] == 2


@decision("A27")
async def test_resumption_of_plan_by_new_session_is_recorded_once(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(sessionId="first")
    await agent.take(plan, sessionId="first")
    for _ in range(3):
        await agent.call("get_research_context", planId=plan["planId"], sessionId="second")
    await agent.take(plan, sessionId="second")
    assert await resumptions(world, plan) == ["second"]


@decision("A27")
async def test_concurrent_calls_of_new_session_record_a_single_resumption(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(sessionId="first")
    await agent.take(plan, sessionId="first")
    args = {"planId": plan["planId"], "sessionId": "second"}
    looks = [agent.call("get_research_context", **args) for _ in range(4)]
    await asyncio.gather(*looks, *[agent.take(plan, sessionId="second") for _ in range(4)])
    assert await resumptions(world, plan) == ["second"]


@decision("A27")
async def test_first_session_working_on_plan_records_no_resumption(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan()
    await agent.call("get_research_context", planId=plan["planId"], sessionId="reader")
    await agent.take(plan, sessionId="worker")
    assert await resumptions(world, plan) == []


@decision("A27")
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


@decision("A27")
async def test_new_session_on_closed_plan_records_no_resumption(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    await agent.work_through(plan)
    before = await events(world, plan)
    context = await agent.call("get_research_context", planId=plan["planId"], sessionId="late")
    assert context["status"] == "completed"
    assert await events(world, plan) == before


async def test_audit_entries_record_actor_channel_and_session(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1, sessionId="s")
    await agent.take(plan, sessionId="s")
    entries = await world.entries(agent.org_id, plan["planId"])
    assert [(e.actor, e.channel, e.session, e.at) for e in entries] == [
        ("ann", "mcp", "s", world.clock.now)
    ] * 2
