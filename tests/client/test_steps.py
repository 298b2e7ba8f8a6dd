"""Steps claimed by the client: loops, errors, steps lost to other agents, cancellation."""
# ruff: noqa: PT012 - these tests are about blocks that raise an error

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from patience import NOTICE_SECONDS
from waybook.client import Client, HoldLost, NothingReady, NotSubmitted, Step
from waybook.client.claims import TASK_NAME
from waybook.client.client import OpenReview
from waybook.errors import InvalidInput, NotAwaitingReview, StaleAttempt


@pytest.fixture
async def client(address: str) -> AsyncIterator[Client]:
    async with Client(address, session_id="s", heartbeat_seconds=0.01) as opened:
        yield opened


async def events(world: OrgEnv, plan: Body) -> list[str]:
    entries = await world.entries(world.agent.org_id, plan["planId"])
    return [str(entry.event) for entry in entries]


async def test_client_steps_yields_every_step_of_a_plan_once(
    client: Client, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(3)
    orders = []
    async for step in client.steps(plan["planId"]):
        async with step:
            done = await step.submit({"n": step.order}, confidence=0.9)
            orders.append((step.order, done["progress"]["done"]))
    assert orders == [(1, 1), (2, 2), (3, 3)]
    assert (await events(world, plan)).count("step_completed") == 3
    assert (await agent.status(plan))["status"] == "completed"


async def test_client_step_has_instructions_ids_and_context(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("Count.", title="Count"), make_step("Add.")])
    async with client.step(plan["planId"]) as step:
        context = await step.context()
        await step.submit("two")
    assert (step.plan_id, step.step_id) == (plan["planId"], plan["stepIds"][0])
    assert (step.instructions, step.title, step.type) == ("Count.", "Count", "search")
    assert (step.order, step.attempt, step.is_resumed) == (1, 1, False)
    assert context["researchQuestion"] == "Which river is longest?"
    async with client.step(plan["planId"]) as step:
        earlier = (await step.context())["earlierResults"]
        await step.submit("three")
    assert "two" in str(earlier)


async def test_error_in_step_block_returns_step_with_the_reason(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    with pytest.raises(ZeroDivisionError):
        async with client.step(plan["planId"]):
            raise ZeroDivisionError("no\nresult")
    async with client.step(plan["planId"]) as step:
        assert (step.attempt, step.is_resumed) == (2, False)
        failures = (await step.context())["failures"]
        await step.submit("found")
    assert "ZeroDivisionError: no result" in str(failures)


async def test_error_in_step_block_with_on_error_fail_fails_step(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    with pytest.raises(ZeroDivisionError):
        async with client.step(plan["planId"], on_error="fail"):
            raise ZeroDivisionError
    (failed,) = (await agent.status(plan))["failedSteps"]
    assert (failed["stepOrder"], failed["reason"]) == (1, "ZeroDivisionError:")


async def test_error_in_step_block_with_on_error_keep_keeps_claim(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    with pytest.raises(ZeroDivisionError):
        async with client.step(plan["planId"], on_error="keep"):
            raise ZeroDivisionError
    async with client.step(plan["planId"]) as step:
        assert (step.order, step.attempt, step.is_resumed) == (1, 1, True)
        await step.submit("found")


async def test_step_block_without_submit_makes_the_step_pending_again(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    with pytest.raises(NotSubmitted, match=plan["stepIds"][0]):
        async with client.step(plan["planId"]):
            pass
    (pending,) = (await agent.status(plan))["pendingSteps"]
    assert pending["stepId"] == plan["stepIds"][0]


async def test_leaving_the_steps_loop_early_makes_the_step_pending_again(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    async with aclosing(client.steps(plan["planId"])) as steps:
        async for _ in steps:
            break
    assert len((await agent.status(plan))["pendingSteps"]) == 2


async def take_back(agent: AgentClient, step: Step) -> None:
    """Reset the step as another agent of the org."""
    change: Any = {"action": "retry_step", "stepId": step.step_id}
    await agent.call("modify_plan", planId=step.plan_id, modifications=[change])


async def test_step_block_raises_hold_lost_after_a_takeover(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    is_canceled = False
    with pytest.raises(HoldLost, match="attempt 1, is not yours now"):
        async with asyncio.timeout(NOTICE_SECONDS), client.step(plan["planId"]) as step:
            await take_back(agent, step)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                is_canceled = True
                raise
    assert is_canceled
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_error_of_former_holder_does_not_affect_new_holder(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    with pytest.raises(ZeroDivisionError):
        async with Client(client.url) as slow, slow.step(plan["planId"]) as step:
            await take_back(agent, step)
            await agent.take(plan, sessionId="other")
            raise ZeroDivisionError
    (active,) = (await agent.status(plan))["activeSteps"]
    assert (active["attempt"], active["sessionId"]) == (2, "other")


async def test_late_result_raises_stale_attempt_and_is_stored_as_artifact(
    address: str, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    async with Client(address) as client:
        with pytest.raises(StaleAttempt) as late:
            async with client.step(plan["planId"]) as step:
                await take_back(agent, step)
                await step.submit("late")
    assert late.value.details["artifactId"]


async def test_canceling_client_step_block_releases_step_and_stops_heartbeats(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    claimed = asyncio.Event()

    async def work() -> None:
        async with client.step(plan["planId"]):
            assert TASK_NAME in {task.get_name() for task in asyncio.all_tasks()}
            claimed.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    async with asyncio.timeout(NOTICE_SECONDS):
        await claimed.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert task.cancelled()
    assert TASK_NAME not in {task.get_name() for task in asyncio.all_tasks()}
    (pending,) = (await agent.status(plan))["pendingSteps"]
    assert pending["stepId"] == plan["stepIds"][0]


async def test_step_stays_claimed_after_a_refused_result(
    client: Client, agent: AgentClient
) -> None:
    schema = {"type": "object", "required": ["price"]}
    plan = await agent.plan([make_step(resultSchema=schema)])
    async with client.step(plan["planId"]) as step:
        with pytest.raises(InvalidInput):
            await step.submit({"cost": 1})
        assert step.is_held
        assert (await step.submit({"price": 1}))["planStatus"] == "completed"


async def test_concurrent_loops_of_the_same_client_claim_different_steps(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(4)
    orders = []

    async def work() -> None:
        async for step in client.steps(plan["planId"]):
            async with step:
                orders.append(step.order)
                await step.submit("found")

    async with asyncio.timeout(NOTICE_SECONDS):
        await asyncio.gather(work(), work(), work())
    assert sorted(orders) == [1, 2, 3, 4]


async def test_heartbeat_renews_last_seen_time_of_step(
    client: Client, world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    async with asyncio.timeout(NOTICE_SECONDS), client.step(plan["planId"]) as step:
        world.clock.advance(minutes=10)
        while not await is_seen_now(world, plan):
            pass
        await step.submit("found")


async def is_seen_now(world: OrgEnv, plan: Body) -> bool:
    (active,) = (await world.agent.status(plan))["activeSteps"]
    return bool(active["lastSeenAt"] == world.clock.now.isoformat())


async def approve(agent: AgentClient, plan: Body) -> Body:
    return await agent.call("submit_user_decision", planId=plan["planId"], decision="approve")


async def ask_until_approved(client: Client, plan: Body) -> list[tuple[int, int]]:
    """Work on a plan whose first step is reviewed; return the attempts at each step."""
    attempts = []
    async for step in client.steps(plan["planId"]):
        async with step:
            attempts.append((step.order, step.attempt))
            if step.order == 1:
                await step.review("Good?", questions=["Why?"], result={"draft": step.attempt})
            else:
                await step.submit("found")
    return attempts


async def open_review(person: Client, plan: Body) -> OpenReview:
    while True:
        if reviews := await person.reviews(plan["planId"]):
            return reviews[0]


async def test_decision_of_another_client_lets_the_loop_continue(
    client: Client, address: str, world: OrgEnv, agent: AgentClient
) -> None:
    plan, _ = await agent.plan(2), await agent.plan(1)
    async with Client(address) as person, asyncio.timeout(NOTICE_SECONDS):
        working = asyncio.create_task(ask_until_approved(client, plan))
        review = await open_review(person, plan)
        assert (review["planName"], review["stepOrder"]) == ("Rivers", 1)
        assert (review["summary"], review["questions"]) == ("Good?", ["Why?"])
        assert review["resultSummary"] == {"draft": 1}
        decided = await person.decide(review, "modify", "Add the source.")
        assert decided["stepStatus"] == "in_progress"
        with pytest.raises(NotAwaitingReview):
            await person.decide(review, "approve")
        second = await open_review(person, plan)
        assert second["resultSummary"] == {"draft": 2}
        assert await person.reviews() == [second]
        await person.decide(second, "approve")
        assert await working == [(1, 1), (1, 2), (2, 1)]
        assert await person.reviews() == []
    entries = await world.entries(world.agent.org_id, plan["planId"])
    details = [json.loads(entry.details) for entry in entries]
    decisions = [(d["decision"], d["place"]) for d in details if d.get("action") == "decision"]
    assert decisions == [("modify", "client"), ("approve", "client")]


async def test_steps_loop_until_idle_ends_while_plan_awaits_review(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    async for step in client.steps(plan["planId"], until="idle"):
        async with step:
            await step.review("Good?")
    assert (await agent.status(plan))["status"] == "awaiting_review"


async def test_client_step_raises_nothing_ready_when_plan_is_complete(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    await agent.work_through(plan)
    with pytest.raises(NothingReady) as nothing:
        async with client.step(plan["planId"]):
            raise AssertionError
    assert nothing.value.status == "plan_complete"


async def test_client_steps_loop_raises_nothing_ready_when_plan_has_failed(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(
        1,
        branchingConditions=[
            {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "fail"}
        ],
    )
    with pytest.raises(NothingReady, match="plan_failed"):
        async for step in client.steps(plan["planId"]):
            async with step:
                await step.submit("found")


async def test_restarted_client_with_same_session_resumes_step(
    address: str, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="worker")
    async with Client(address, session_id="worker") as client, client.step(plan["planId"]) as step:
        assert (step.step_id, step.is_resumed) == (taken["stepId"], True)
        await step.submit("found")
