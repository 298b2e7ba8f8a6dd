"""Steps and jobs that the client library claims: loops, errors, takeovers and cancellation."""
# ruff: noqa: PT012 - these tests are about blocks that raise an error

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from patience import NOTICE_SECONDS
from waybook.client import Client, HoldLost, Job, NothingReady, NotSubmitted, Step
from waybook.client.claims import TASK_NAME
from waybook.client.client import OpenReview
from waybook.errors import InvalidInput, NotAwaitingReview, StaleAttempt
from waybook.store.driver.queries import Query


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


async def test_error_raised_inside_a_step_makes_the_step_pending_with_a_reason(
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


async def test_on_error_option_decides_if_step_is_kept_or_failed_after_error(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    with pytest.raises(ZeroDivisionError):
        async with client.step(plan["planId"], on_error="keep"):
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with client.step(plan["planId"], on_error="fail") as step:
            assert (step.order, step.attempt, step.is_resumed) == (1, 1, True)
            raise ZeroDivisionError
    (failed,) = (await agent.status(plan))["failedSteps"]
    assert (failed["stepOrder"], failed["reason"]) == (1, "ZeroDivisionError:")


async def test_leaving_a_step_without_submitting_makes_the_step_pending_again(
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
    """Retry the step as another agent of the org, so that the holder loses the step."""
    change: Any = {"action": "retry_step", "stepId": step.step_id}
    await agent.call("modify_plan", planId=step.plan_id, modifications=[change])


async def test_holder_gets_hold_lost_error_if_step_goes_to_another_agent(
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


async def test_canceling_work_on_a_step_releases_step_and_stops_heartbeats(
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


async def ask_until_approved(client: Client, plan: Body) -> list[tuple[int, int]]:
    """Work on a plan with a review of step 1; return step number and attempt of each claim."""
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


async def test_loop_continues_after_another_client_has_decided_the_review(
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


async def test_loop_with_until_idle_ends_while_plan_awaits_review(
    client: Client, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    async for step in client.steps(plan["planId"], until="idle"):
        async with step:
            await step.review("Good?")
    assert (await agent.status(plan))["status"] == "awaiting_review"


async def test_claiming_a_step_of_a_complete_plan_raises_nothing_ready(
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


# Tests of jobs.


SEEN_AT = Query("seen_at", "select seen_at from job where id = %(job_id)s")


async def test_client_jobs_loop_for_a_model_yields_only_matching_jobs(
    client: Client, agent: AgentClient
) -> None:
    run = await agent.run(models="ab")
    await agent.work_off(run)
    await agent.feedback(run, "scope")
    models = []
    async for job in client.jobs(run["runId"], model="b", until="idle"):
        async with job:
            models.append(job.model)
            assert job.prompt
            await job.submit("# Found")
    assert models
    assert set(models) == {"b"}
    assert (await agent.job(run, modelId="a"))["modelId"] == "a"


async def test_two_models_complete_a_stage_without_sharing_a_job(
    client: Client, agent: AgentClient
) -> None:
    run = await agent.run(models="ab")
    seen: set[str] = set()

    async def work(model: str) -> None:
        async for job in client.jobs(run["runId"], model=model, until="idle", session_id=model):
            async with job:
                assert job.job_id not in seen
                seen.add(job.job_id)
                await job.submit("# Found")

    async with asyncio.timeout(NOTICE_SECONDS):
        while (await last_status(agent, run)) == "nothing_ready":
            await asyncio.gather(work("a"), work("b"))
    assert await last_status(agent, run) in {"awaiting_feedback", "run_complete"}


async def last_status(agent: AgentClient, run: Body) -> str:
    """Ask for a job of an unknown model, so that no job is claimed; return the status."""
    reply = await agent.call("get_next_job", runId=run["runId"], modelId="none")
    return str(reply["status"])


async def test_job_submitted_in_parts_is_continued_by_next_job(
    client: Client, agent: AgentClient
) -> None:
    run = await agent.run(models="a")
    async with client.job(run["runId"]) as job:
        first = await job.submit("# One", continues=True)
    async with client.job(run["runId"]) as job:
        assert job.so_far == "# One"
        await job.submit(" and two")
    assert first["continuation"]["jobId"] == job.job_id != first["jobId"]


async def test_exception_during_a_job_schedules_a_retry(client: Client, agent: AgentClient) -> None:
    run = await agent.run(models="a")
    with pytest.raises(ZeroDivisionError):
        async with client.job(run["runId"]):
            raise ZeroDivisionError("no model")
    reply = await agent.call("get_next_job", runId=run["runId"])
    assert (reply["status"], reply["open"][0]["status"]) == ("nothing_ready", "retrying")


async def test_failing_a_job_returns_the_number_of_attempts_left(
    client: Client, agent: AgentClient
) -> None:
    run = await agent.run(models="a")
    async with client.job(run["runId"]) as job:
        failed = await job.fail("model overloaded")
    assert (failed["status"], failed["attemptsLeft"]) == ("retrying", 3)


async def test_heartbeats_keep_a_job_claimed_beyond_the_lease(
    client: Client, world: OrgEnv, agent: AgentClient
) -> None:
    run = await agent.run(models="a")
    async with asyncio.timeout(NOTICE_SECONDS), client.job(run["runId"]) as job:
        for _ in range(4):
            world.clock.advance(seconds=job.reply["leaseSeconds"] / 2)
            await next_heartbeat(world, job.job_id)
        other = await agent.call("get_next_job", runId=run["runId"], sessionId="other")
        assert other["status"] == "nothing_ready"
        await job.submit("# Found")


async def next_heartbeat(world: OrgEnv, job_id: str) -> None:
    """Wait until the job has had a heartbeat at the current time of the test clock."""
    seen_at = None
    while seen_at != world.clock.now:
        ((row,),) = await world.database.read_org(world.agent.org_id, SEEN_AT(job_id=job_id))
        (seen_at,) = row


async def beat_often(job: Job) -> None:
    """Send heartbeats often, so that the client soon notices that it has lost the job."""
    await job._stop_heartbeat()
    job._heartbeat_seconds = 0.01
    job._start_heartbeat()


async def test_read_input_of_client_job_returns_the_full_text(
    client: Client, agent: AgentClient
) -> None:
    text = "".join(f"{n} " for n in range(30_000))
    run = await agent.run(models="a", input=text)
    async with client.job(run["runId"]) as job:
        (shortened,) = job.inputs
        assert len(shortened["content"]) < len(text)
        assert await job.read_input(shortened) == text
        await job.submit("# Found")


async def test_work_is_canceled_when_another_session_claims_the_job(
    address: str, world: OrgEnv, agent: AgentClient
) -> None:
    run = await agent.run(models="a")
    takeovers: list[Body] = []
    async with Client(address) as client:
        with pytest.raises(HoldLost):
            async with asyncio.timeout(NOTICE_SECONDS), client.job(run["runId"]) as job:
                world.clock.advance(seconds=10 * job.reply["leaseSeconds"])
                takeovers.append(await agent.job(run, sessionId="other"))
                await beat_often(job)
                await asyncio.Event().wait()
    (taken,) = takeovers
    assert taken["attempt"] == 2
    assert (await agent.submit_documents(taken))["jobStatus"] == "completed"
