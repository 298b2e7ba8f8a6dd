"""Many workers on one run: each job is done once, and each document is there."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import Server, new_database
from report_invariants import check
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.request.caller import Answer
from waybook.background import render_all_orgs

WORKERS = 32
POOL = 16


@pytest.fixture
async def env_with_few_connections(eighteen: Server) -> AsyncIterator[OrgEnv]:
    with new_database(eighteen) as place:
        async with make_env(place, pool_size=POOL) as world:
            yield world


async def make_wide_stage(agent: AgentClient, models: list[str]) -> Body:
    """Return a run in its second stage: a step with many jobs, followed by one more step."""
    wide = make_recipe_step("wide", "pairwise_by_origin", outputs=[{"documentKey": "wide"}])
    last = make_recipe_step("last", "all_to_one")
    stages = [
        make_stage("begin", make_recipe_step("begin")),
        make_stage("work", wide, last, edges=[("wide", "last")]),
    ]
    await agent.call("add_dag", definition=make_definition("wide", *stages))
    run = await agent.run("wide", models)
    await agent.work_off(run)
    await agent.feedback(run, "begin")
    return run


async def work(agent: AgentClient, run: Body, name: str, done: Counter[str]) -> None:
    """Claim and submit jobs until the run is complete; count the jobs in `done`."""
    while True:
        reply = await answered(agent, "get_next_job", runId=run["runId"], sessionId=name)
        if reply["status"] == "run_complete":
            return
        if reply["status"] == "nothing_ready":
            await asyncio.sleep(0)
            continue
        assert reply["status"] == "job_ready", reply
        held = {"jobId": reply["jobId"], "attempt": reply["attempt"], "sessionId": name}
        await answered(agent, "submit_job_result", **held, documents=[{"content": f"by {name}"}])
        done[reply["jobId"]] += 1


async def answered(agent: AgentClient, tool: str, **arguments: object) -> Body:
    """Return the reply; like an agent, repeat a call that is refused because others write.

    The timeout of the test limits the number of repetitions.
    """
    while True:
        answer: Answer = await agent.ask(tool, arguments)
        if not answer.is_error:
            return answer.body
        error: Any = answer.body["error"]
        assert error["code"] == "BUSY", error
        await asyncio.sleep(0)


async def poll_reports(agent: AgentClient, run: Body, over: asyncio.Event) -> int:
    """Check reports of the run until it has ended; return the number of reports."""
    before: Any = None
    looks = 0
    while not over.is_set():
        report: Any = await agent.progress(run)
        assert check(report, before) == []
        before, looks = report, looks + 1
        await asyncio.sleep(0.05)
    return looks


@pytest.mark.parametrize("n", [5, pytest.param(13, marks=pytest.mark.load)])
async def test_run_with_many_jobs_and_workers_completes_each_job_once(
    env_with_few_connections: OrgEnv, n: int
) -> None:
    agent = env_with_few_connections.agent
    models = [f"model-{number}" for number in range(n)]
    # The step `wide` has a job for each combination of lineage, reviewer and model: 125 or 2,197.
    many = n**3
    run = await make_wide_stage(agent, models)
    done: Counter[str] = Counter()
    over = asyncio.Event()
    looking = asyncio.create_task(poll_reports(agent, run, over))
    async with asyncio.timeout(240):
        workers = (work(agent, run, f"worker-{n}", done) for n in range(WORKERS))
        await asyncio.gather(*workers)
    over.set()
    assert await looking > 0
    assert len(done) == many + 1
    assert set(done.values()) == {1}
    while await render_all_orgs(env_with_few_connections.dispatcher.services):
        pass
    report: Any = await agent.progress(run, detail=True)
    assert report["dagProgress"] == {"completedStages": 2, "totalStages": 2}
    wide, last = report["stages"][1]["steps"]
    assert wide["jobs"] == {"done": many, "active": 0, "failed": 0}
    assert last["jobs"] == {"done": 1, "active": 0, "failed": 0}
    assert report["stages"][1]["documentsAvailable"] == 1
    entries = await env_with_few_connections.entries(agent.org_id, run["runId"])
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    events = Counter(entry.event for entry in entries)
    assert events["step_started"] == events["step_completed"] == n + many + 1
    tried = (
        "select count(*), count(*) filter (where attempt <> 1) from job where job_type <> 'RENDER'"
    )
    (rows,) = await env_with_few_connections.database.read_org(agent.org_id, tried)
    assert rows == [(n + many + 1, 0)]


async def act_at_random(agent: AgentClient, run: Body, name: str, chance: Random) -> None:
    """Read, complete, fail, regenerate and retry jobs at random until the run is complete."""
    made: list[str] = []
    while True:
        reply = await answered(agent, "get_next_job", runId=run["runId"], sessionId=name)
        named = {"runId": run["runId"], "stageSlug": reply.get("stageSlug")}
        match reply["status"]:
            case "run_complete":
                return
            case "job_ready":
                made += await handle(agent, reply, chance)
            case "stage_failed":
                await answered(agent, "retry_failed", **named)
            case "awaiting_feedback":
                # The call is refused if another worker has already given the feedback.
                await agent.ask("submit_stage_feedback", {**named, "feedback": "Go on."})
        if made and chance.random() < 0.05:
            await agent.ask("regenerate_document", {"documentId": chance.choice(made)})


async def handle(agent: AgentClient, job: Body, chance: Random) -> list[str]:
    """Fail the job, submit its result, or submit a part, at random; return the new documents."""
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await answered(agent, "get_job_input", jobId=job["jobId"])
    mood = chance.random()
    if mood < 0.05:
        await answered(agent, "fail_job", **held, error="No.", retryable=False)
        return []
    done = await answered(
        agent, "submit_job_result", **held, documents=[{"content": "x"}], continues=mood < 0.1
    )
    return list(done["documentIds"])


async def rendering(world: OrgEnv, over: asyncio.Event) -> None:
    """Render documents until `over` is set, as a server process does."""
    while not over.is_set():
        await render_all_orgs(world.dispatcher.services)


async def test_concurrent_workers_finish_a_run_with_all_documents(
    env_with_few_connections: OrgEnv,
) -> None:
    agent = env_with_few_connections.agent
    run = await agent.run("dialectic", ["a", "b"])
    over = asyncio.Event()
    looking = asyncio.create_task(poll_reports(agent, run, over))
    printing = [asyncio.create_task(rendering(env_with_few_connections, over)) for _ in range(2)]
    async with asyncio.timeout(240):
        crowd = (act_at_random(agent, run, f"worker-{n}", Random(n)) for n in range(12))  # noqa: S311 - dice
        await asyncio.gather(*crowd)
    over.set()
    await asyncio.gather(looking, *printing)
    await agent.work_off(run)
    while await render_all_orgs(env_with_few_connections.dispatcher.services):
        pass
    report: Any = await agent.progress(run, detail=True)
    assert check(report) == []
    assert report["dagProgress"]["completedStages"] == 5
    for stage in report["stages"]:
        assert stage["documentsAvailable"] == stage["documentsExpected"]
