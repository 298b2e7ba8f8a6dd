"""Jobs claimed by the client: loops, partial results, errors and lost leases."""
# ruff: noqa: PT012 - these tests are about blocks that raise an error

import asyncio
from collections.abc import AsyncIterator

import pytest

from org_env import AgentClient, Body, OrgEnv
from patience import NOTICE_SECONDS
from waybook.client import Client, HoldLost, Job
from waybook.store.driver.queries import Query

SEEN_AT = Query("seen_at", "select seen_at from job where id = %(job_id)s")


@pytest.fixture
async def client(address: str) -> AsyncIterator[Client]:
    async with Client(address, session_id="s", heartbeat_seconds=0.01) as opened:
        yield opened


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
    """Return the status of a run without claiming a job, by asking for an unknown model."""
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


async def test_exception_in_job_block_schedules_a_retry(client: Client, agent: AgentClient) -> None:
    run = await agent.run(models="a")
    with pytest.raises(ZeroDivisionError):
        async with client.job(run["runId"]):
            raise ZeroDivisionError("no model")
    reply = await agent.call("get_next_job", runId=run["runId"])
    assert (reply["status"], reply["open"][0]["status"]) == ("nothing_ready", "retrying")


async def test_failing_a_client_job_returns_number_of_attempts_left(
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
    """Wait until the job's last heartbeat has the current time of the test clock."""
    seen_at = None
    while seen_at != world.clock.now:
        ((row,),) = await world.database.read_org(world.agent.org_id, SEEN_AT(job_id=job_id))
        (seen_at,) = row


async def beat_often(job: Job) -> None:
    """Restart the heartbeat with a short interval; call this only after the job was taken over."""
    await job._heartbeat.stop()
    job._heartbeat._interval_seconds = 0.01
    job._heartbeat.start()


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


async def test_job_block_is_canceled_when_another_session_claims_job(
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
