"""Leases of jobs: renewal, late results, retries and sessions; also filters of `get_next_job`."""

import json

import pytest

from org_env import AgentClient, Body, FakeClock, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.run.model import MAX_ATTEMPTS


@pytest.fixture
async def run(agent: AgentClient) -> Body:
    """Return a run with a PLAN job, followed by an EXECUTE job for each of two models."""
    plan = make_recipe_step("plan", "all_to_one", jobType="PLAN", outputs=[{"documentKey": "plan"}])
    stage = make_stage("work", plan, make_recipe_step("do"), edges=[("plan", "do")])
    await agent.call("add_dag", definition=make_definition("two-steps", stage))
    return await agent.run("two-steps")


@pytest.fixture
def bob(agent: AgentClient) -> AgentClient:
    return agent.acting_as("bob")


async def late_results(world: OrgEnv, agent: AgentClient) -> list[tuple[object, ...]]:
    query = "select attempt, content, created_by from late_result order by id"
    return (await world.database.read_org(agent.org_id, query))[0]


async def fail(agent: AgentClient, job: Body, *, retryable: bool = True) -> Body:
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    return await agent.call("fail_job", **held, error="The line is dead.", retryable=retryable)


async def nothing(agent: AgentClient, run: Body, **more: object) -> Body:
    reply = await agent.call("get_next_job", runId=run["runId"], **more)
    assert reply["status"] == "nothing_ready", reply
    return reply


async def test_job_with_expired_lease_goes_to_the_next_caller(
    world: OrgEnv, agent: AgentClient, bob: AgentClient, clock: FakeClock, run: Body
) -> None:
    job = await agent.job(run)
    assert job["leaseSeconds"] == 900
    # The time of the claim may be up to a second behind the database clock.
    clock.advance(minutes=15, seconds=1)
    reply = await nothing(bob, run)
    assert reply["open"] == [
        {"stageSlug": "work", "stepKey": "plan", "status": "processing", "modelId": "a", "jobs": 1}
    ]
    clock.advance(seconds=1)
    taken = await bob.job(run)
    assert (taken["jobId"], taken["attempt"]) == (job["jobId"], job["attempt"] + 1)
    last = (await world.entries(agent.org_id, run["runId"]))[-1]
    assert (last.event, json.loads(last.details)["takenFrom"]) == ("step_started", "ann")


async def test_job_result_with_outdated_attempt_is_stored_as_late_result(
    world: OrgEnv, agent: AgentClient, bob: AgentClient, clock: FakeClock, run: Body
) -> None:
    job = await agent.job(run)
    clock.advance(minutes=16)
    taken = await bob.job(run)
    late = {"jobId": job["jobId"], "attempt": job["attempt"]}
    for text in ("late", "later"):
        error = await agent.refused("submit_job_result", **late, documents=[{"content": text}])
        assert (error["code"], error["details"]["currentAttempt"]) == ("STALE_ATTEMPT", 2)
        assert error["next"]["tool"] == "get_next_job"
    assert await late_results(world, agent) == [(1, "late", "ann"), (1, "later", "ann")]
    await bob.submit_documents(taken, "in time")
    assert await _contents(world, agent) == ["in time"]
    error = await agent.refused("submit_job_result", **late, documents=[{"content": "latest"}])
    assert error["code"] == "STALE_ATTEMPT"
    assert len(await late_results(world, agent)) == 3


async def _contents(world: OrgEnv, agent: AgentClient) -> list[str]:
    results = await world.database.read_org(
        agent.org_id, "select content from document order by id"
    )
    return [row[0] for row in results[0]]


async def test_result_after_lease_expiry_is_accepted_unless_job_was_reclaimed(
    agent: AgentClient, clock: FakeClock, run: Body
) -> None:
    job = await agent.job(run)
    clock.advance(hours=9)
    assert (await agent.submit_documents(job))["jobStatus"] == "completed"


@pytest.mark.parametrize("sign", ["get_job_input", "get_next_job"])
async def test_heartbeat_renews_lease_of_job(
    agent: AgentClient, bob: AgentClient, clock: FakeClock, run: Body, sign: str
) -> None:
    job = await agent.job(run, sessionId="ann's")
    args = {"jobId": job["jobId"]} if sign == "get_job_input" else {"runId": run["runId"]}
    for _ in range(3):
        clock.advance(minutes=10)
        await agent.call(sign, **args, sessionId="ann's")
    clock.advance(minutes=15, seconds=1)
    await nothing(bob, run)
    clock.advance(seconds=1)
    assert (await bob.job(run))["attempt"] == 2


async def test_heartbeat_of_former_holder_is_refused_and_renews_nothing(
    agent: AgentClient, bob: AgentClient, clock: FakeClock, run: Body
) -> None:
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    assert (await agent.call("get_job_input", **held))["left"] == 0
    clock.advance(minutes=16)
    assert (await bob.job(run, sessionId="bob's"))["attempt"] == 2
    clock.advance(minutes=14)
    assert (await agent.refused("get_job_input", **held))["code"] == "STALE_ATTEMPT"
    clock.advance(minutes=2)
    assert (await agent.job(run))["attempt"] == 3


async def test_get_next_job_returns_a_job_despite_many_expired_leases(
    agent: AgentClient, clock: FakeClock
) -> None:
    models = [f"m{n}" for n in range(12)]
    stages = [
        make_stage("one", make_recipe_step("one")),
        make_stage("two", make_recipe_step("two", "per_source_document_by_lineage")),
    ]
    await agent.call("add_dag", definition=make_definition("wide", *stages))
    run = await agent.run("wide", models)
    await agent.work_off(run)
    await agent.feedback(run, "one")
    taken: set[str] = set()
    for _ in range(MAX_ATTEMPTS):
        taken = {(await agent.job(run))["jobId"] for _ in range(60)}
        assert len(taken) == 60
        clock.advance(minutes=16)
    assert (await agent.call("get_next_job", runId=run["runId"]))["status"] == "nothing_ready"
    fresh = await agent.job(run)
    assert (fresh["attempt"], fresh["jobId"] in taken) == (1, False)
    await agent.submit_documents(fresh)
    assert (await agent.work_off(run))["status"] == "stage_failed"
    step = (await agent.progress(run))["stages"][1]["steps"][0]
    assert (step["status"], step["jobs"]) == ("failed", {"done": 84, "active": 0, "failed": 60})


async def test_failed_job_is_retried_with_growing_delay_until_max_attempts(
    agent: AgentClient, clock: FakeClock, run: Body
) -> None:
    for attempt, wait in ((1, 5), (2, 10), (3, 20)):
        job = await agent.job(run)
        failed = await fail(agent, job)
        assert (job["attempt"], failed["status"]) == (attempt, "retrying")
        assert failed["attemptsLeft"] == MAX_ATTEMPTS - attempt
        clock.advance(seconds=wait - 1)
        (open_job,) = (await nothing(agent, run))["open"]
        assert (open_job["status"], open_job["readyAt"]) == ("retrying", failed["retryAt"])
        clock.advance(seconds=1)
    failed = await fail(agent, await agent.job(run))
    assert (failed["status"], failed["attemptsLeft"]) == ("retry_loop_failed", 0)
    assert "retryAt" not in failed
    reply = await agent.call("get_next_job", runId=run["runId"])
    assert (reply["status"], reply["retryAfterSeconds"]) == ("stage_failed", 30)
    following = (await agent.call("get_run_progress", runId=run["runId"]))["next"]
    assert following["args"] == reply["next"]["args"]
    assert "a person retries" in following["why"]
    waiting = {"runId": run["runId"], "waitSeconds": 55}
    assert (reply["next"]["tool"], reply["next"]["args"]) == ("get_next_job", waiting)


async def test_failed_job_does_not_block_other_jobs_of_stage(agent: AgentClient, run: Body) -> None:
    await agent.submit_documents(await agent.job(run))
    await fail(agent, await agent.job(run), retryable=False)
    assert (await agent.progress(run))["stages"][0]["status"] == "failed"
    done = await agent.submit_documents(await agent.job(run))
    assert done["stage"]["status"] == "failed"
    assert (await agent.call("get_next_job", runId=run["runId"]))["status"] == "stage_failed"
    error = await agent.refused(
        "submit_stage_feedback", runId=run["runId"], stageSlug="work", feedback="Well."
    )
    assert (error["code"], error["details"]["from"]) == ("INVALID_TRANSITION", "failed")
    assert "the stage 'work' has failed jobs" in error["message"]
    assert error["next"]["tool"] == "get_run_progress"


async def test_session_gets_own_job_again_unless_another_is_requested(
    agent: AgentClient, run: Body
) -> None:
    await agent.submit_documents(await agent.job(run))
    job = await agent.job(run, sessionId="s")
    again = await agent.job(run, sessionId="s")
    assert again == {**job, "resumed": True}
    other = await agent.job(run, sessionId="s", another=True)
    assert other["jobId"] != job["jobId"]
    assert "resumed" not in other
    assert (await nothing(agent, run, sessionId="s", another=True))["open"]
    await agent.submit_documents(job)
    assert (await agent.job(run, sessionId="s"))["jobId"] == other["jobId"]


async def test_get_next_job_returns_only_jobs_of_requested_model(
    agent: AgentClient, run: Body
) -> None:
    await nothing(agent, run, modelId="b")
    await agent.submit_documents(await agent.job(run, modelId="a"))
    assert (await agent.job(run, modelId="b"))["modelId"] == "b"
    (open_job,) = [
        o for o in (await nothing(agent, run, modelId="b"))["open"] if o["modelId"] == "a"
    ]
    assert (open_job["status"], open_job["jobs"]) == ("pending", 1)
    await nothing(agent, run, modelId="nobody")
    assert (await agent.job(run))["modelId"] == "a"


async def test_session_can_hold_jobs_of_several_models(agent: AgentClient, run: Body) -> None:
    await agent.submit_documents(await agent.job(run))
    first = await agent.job(run, sessionId="s", modelId="a")
    second = await agent.job(run, sessionId="s", modelId="b")
    assert {first["modelId"], second["modelId"]} == {"a", "b"}
    again = await agent.job(run, sessionId="s", modelId="b")
    assert (again["jobId"], again["resumed"]) == (second["jobId"], True)


async def test_get_next_job_returns_only_jobs_of_requested_types(
    agent: AgentClient, run: Body
) -> None:
    await nothing(agent, run, jobTypes=["EXECUTE"])
    plan = await agent.job(run, jobTypes=["PLAN"], sessionId="s")
    assert plan["jobType"] == "PLAN"
    await nothing(agent, run, jobTypes=["EXECUTE"], sessionId="s")
    await agent.submit_documents(plan)
    await nothing(agent, run, jobTypes=["PLAN"])
    assert (await agent.job(run, jobTypes=["EXECUTE", "PLAN"]))["jobType"] == "EXECUTE"
    for types in (["RENDER"], ["PLAN", "nope"]):
        error = await agent.refused("get_next_job", runId=run["runId"], jobTypes=types)
        assert error["code"] == "INVALID_INPUT"


async def test_get_next_job_without_run_id_prefers_the_oldest_run(
    agent: AgentClient, run: Body
) -> None:
    younger = await agent.run("two-steps")
    first = await agent.call("get_next_job")
    second = await agent.call("get_next_job")
    assert [first["runId"], second["runId"]] == [run["runId"], younger["runId"]]
    reply = await agent.call("get_next_job")
    assert (reply["status"], reply["open"]) == ("nothing_ready", [])
    assert "runId" not in reply
    await agent.submit_documents(second)
    assert (await agent.call("get_next_job", modelId="b"))["runId"] == younger["runId"]


async def test_get_next_job_without_run_id_resumes_own_job_first(
    agent: AgentClient, run: Body
) -> None:
    younger = await agent.run("two-steps")
    held = await agent.job(younger, sessionId="s")
    again = await agent.call("get_next_job", sessionId="s")
    assert (again["jobId"], again["resumed"]) == (held["jobId"], True)
    other = await agent.call("get_next_job", sessionId="s", another=True)
    assert other["runId"] == run["runId"]
    reply = await agent.call("get_next_job", sessionId="s", another=True)
    assert reply["status"] == "nothing_ready"


async def test_get_next_job_without_run_id_returns_job_with_expired_lease(
    agent: AgentClient, clock: FakeClock, run: Body
) -> None:
    job = await agent.job(run)
    assert (await agent.call("get_next_job"))["status"] == "nothing_ready"
    clock.advance(minutes=16)
    assert (await agent.call("get_next_job"))["jobId"] == job["jobId"]


async def test_get_next_job_with_used_idempotency_key_returns_first_reply(
    agent: AgentClient, run: Body
) -> None:
    first = await agent.call("get_next_job", idempotencyKey="k")
    assert first["status"] == "job_ready"
    again = await agent.call("get_next_job", idempotencyKey="k")
    assert again == {**first, "replayed": True}
    none = await agent.call("get_next_job", idempotencyKey="l")
    await agent.run("two-steps")
    assert await agent.call("get_next_job", idempotencyKey="l") == {**none, "replayed": True}
    error = await agent.refused("get_next_job", idempotencyKey="k", modelId="a")
    assert error["code"] == "IDEMPOTENCY_CONFLICT"
    assert run["runId"] == first["runId"]
