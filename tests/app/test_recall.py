"""Calls of a process that has a plan in its cache, while another process changes the plan."""

import asyncio
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv
from sent_messages import count_messages
from waybook.store.driver.connection import DbConnection, Message, Results


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_messages(monkeypatch)


async def test_call_on_a_cached_plan_sends_a_single_database_message(
    agent: AgentClient, messages: list[int]
) -> None:
    plan = await agent.plan(3)
    messages.clear()
    for number in range(1, 4):
        taken = await agent.take(plan, sessionId="s", idempotencyKey=f"t{number}")
        await agent.submit(taken, sessionId="s", idempotencyKey=f"s{number}")
    assert len(messages) == 6
    assert (await agent.status(plan))["status"] == "completed"


async def test_call_on_cached_plan_takes_no_lock_before_the_update(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await agent.plan(1)
    sent, send = list[str](), DbConnection.send

    async def recording(line: DbConnection, opening: Message, statements: Message) -> Results:
        sent.extend(map(str, statements))
        return await send(line, opening, statements)

    monkeypatch.setattr(DbConnection, "send", recording)
    await agent.submit(await agent.take(plan))
    assert not [text for text in sent if "for update" in text]
    assert sum("update plan\n" in text for text in sent) == 2


async def test_audit_chain_stays_unbroken_if_several_processes_change_a_plan(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(4)
    processes = [agent, agent.elsewhere(), agent.elsewhere()]
    more = [{"action": "add_steps", "steps": [{"stepType": "search", "instructions": "New."}]}]
    orders = []
    for number in range(5):
        taking, submitting, changing = (processes[(number + n) % 3] for n in range(3))
        taken = await taking.take(plan, sessionId=f"s{number % 2}")
        orders.append(taken["stepOrder"])
        if number == 2:
            await changing.call("modify_plan", planId=plan["planId"], modifications=more)
        await submitting.submit(taken, sessionId=f"s{number % 2}")
    assert orders == [1, 2, 3, 4, 5]
    assert (await agent.status(plan))["status"] == "completed"


async def test_get_next_step_returns_instructions_changed_by_other_process(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(2)
    change = {"action": "update_step_instructions", "stepId": plan["stepIds"][0]}
    modifications = [{**change, "instructions": "Look again."}]
    await agent.elsewhere().call("modify_plan", planId=plan["planId"], modifications=modifications)
    assert (await agent.take(plan))["instructions"] == "Look again."


async def test_get_next_step_returns_step_after_other_process_decided_review(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary="Well?")
    assert (await agent.call("get_next_step", planId=plan["planId"]))["status"] == "awaiting_review"
    approval = {"planId": plan["planId"], "decision": "approve"}
    await agent.elsewhere().call("submit_user_decision", **approval)
    assert (await agent.take(plan))["stepOrder"] == 2


async def test_result_is_accepted_after_other_process_retried_failed_step(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(1)
    taken = await agent.take(plan)
    failed = [{"action": "fail_step", "stepId": taken["stepId"], "reason": "broken"}]
    elsewhere = agent.elsewhere()
    more = [{"action": "add_steps", "steps": [{"stepType": "search", "instructions": "Wait."}]}]
    await agent.call("modify_plan", planId=plan["planId"], modifications=more)
    await agent.call("modify_plan", planId=plan["planId"], modifications=failed)
    await elsewhere.modify(plan, "retry_step", stepId=taken["stepId"])
    submitted = {"stepId": taken["stepId"], "resultSummary": "found"}
    assert (await agent.call("submit_step_result", **submitted))["stepStatus"] == "completed"


async def test_concurrent_processes_never_hand_out_same_step(agent: AgentClient) -> None:
    plan = await agent.plan(24)
    others = [agent, agent.elsewhere(), agent.elsewhere()]

    async def take_all(at: AgentClient) -> list[int]:
        taken: list[int] = []
        while True:
            args: Body = {"planId": plan["planId"], "another": True}
            reply = await at.call("get_next_step", **args)
            if reply["status"] != "step_ready":
                return taken
            order: Any = reply["stepOrder"]
            taken.append(order)

    batches = await asyncio.gather(*map(take_all, others))
    assert sorted(order for taken in batches for order in taken) == list(range(1, 25))


async def test_audit_times_come_from_the_database_not_the_local_clock(
    agent: AgentClient, world: OrgEnv
) -> None:
    database = world.database
    noon, database.frozen_now = world.clock.now, None
    plan = await agent.plan(2)
    await agent.take(plan)
    for wrong in (noon, noon.replace(year=1999)):
        database.clock.set(wrong)
        await agent.call("get_next_step", planId=plan["planId"], another=True)
        ((row,),) = await database.read_org(
            agent.org_id,
            "select max(at) <= clock_timestamp() and max(at) > clock_timestamp() - interval '1 min'"
            " from audit_entry where event = 'step_started'",
        )
        assert row == (True,)
    database.frozen_now = noon
