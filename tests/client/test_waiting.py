"""Loops of the Python client that wait at the server while no work is available."""

import asyncio

import pytest

from client.test_answers import OK, proxy
from org_env import AgentClient, Body, make_step
from patience import NOTICE_SECONDS
from waybook.client import NO_RETRY, Client, Unreachable


async def blocked_plan(agent: AgentClient, more: int) -> tuple[Body, Body]:
    """Create a plan with this many steps that depend on the first step, which is claimed."""
    steps = [make_step("1."), *(make_step("More.", dependsOn=[1]) for _ in range(more))]
    plan = await agent.plan(steps)
    return plan, await agent.take(plan)


async def until_waiting(agent: AgentClient, calls: int) -> None:
    async with asyncio.timeout(NOTICE_SECONDS):
        while len(agent.dispatcher.services.waiting) < calls:  # noqa: ASYNC110 - calls are silent
            await asyncio.sleep(0.001)


async def work(client: Client, plan: Body, session_id: str | None = None) -> list[str]:
    """Complete steps until the plan is complete; return their ids."""
    done = []
    async for step in client.steps(plan["planId"], session_id=session_id):
        async with step:
            await step.submit("found")
            done.append(step.step_id)
    return done


async def test_waiting_steps_loop_makes_only_two_calls(address: str, agent: AgentClient) -> None:
    plan, taken = await blocked_plan(agent, 1)
    async with asyncio.timeout(NOTICE_SECONDS), Client(address) as client:
        working = asyncio.create_task(work(client, plan))
        await until_waiting(agent, 1)
        assert agent.dispatcher.figures.counted["get_next_step", "ok"] == 2
        await agent.submit(taken)
        assert await working == plan["stepIds"][1:]
    # Three claims: one that succeeds at once, one that waits, and one that finds the plan complete.
    assert agent.dispatcher.figures.counted["get_next_step", "ok"] == 4


async def test_loops_of_a_session_wait_for_different_steps(
    address: str, agent: AgentClient
) -> None:
    plan, taken = await blocked_plan(agent, 3)
    async with asyncio.timeout(NOTICE_SECONDS), Client(address) as client:
        working = [asyncio.create_task(work(client, plan)) for _ in range(3)]
        await until_waiting(agent, 3)
        await agent.submit(taken)
        done = [step_id for task in working for step_id in await task]
    assert sorted(done) == sorted(plan["stepIds"][1:])


async def test_canceled_steps_loop_leaves_the_wait_queue(address: str, agent: AgentClient) -> None:
    plan, taken = await blocked_plan(agent, 1)
    async with asyncio.timeout(NOTICE_SECONDS), Client(address) as client:
        working = asyncio.create_task(work(client, plan))
        await until_waiting(agent, 1)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        while len(agent.dispatcher.services.waiting):  # noqa: ASYNC110 - calls are silent
            await asyncio.sleep(0.001)
    await agent.submit(taken)
    assert (await agent.take(plan))["attempt"] == 1


async def test_client_timeout_is_extended_by_wait_seconds() -> None:
    async with proxy(OK) as (client, _), Client(client.url, timeout=0, retry=NO_RETRY) as hasty:
        with pytest.raises(Unreachable):
            await hasty.call("get_next_step", planId="p")
        reply = await hasty.call("get_next_step", planId="p", waitSeconds=20)
    assert reply == {"answer": 42}
