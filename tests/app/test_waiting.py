"""Calls of `get_next_step` and `get_next_job` with `waitSeconds`: answers, timers, limits."""

import asyncio
from dataclasses import replace

import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from sample_definitions import make_definition, make_recipe_step, make_stage
from waiting_env import WaitingEnv, answered, canceled
from waybook.app.request.caller import WaitHooks
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.events import ChangeEvent
from waybook.store.driver import pg_notify
from waybook.store.driver.bus import Bus


@pytest.fixture
def env(world: OrgEnv) -> WaitingEnv:
    return WaitingEnv(world)


async def chain(agent: AgentClient, steps: int = 2) -> Body:
    first, *others = range(1, steps + 1)
    return await agent.plan(
        [make_step(f"{first}."), *(make_step(f"{n}.", dependsOn=[n - 1]) for n in others)]
    )


async def two_models(agent: AgentClient) -> Body:
    """Start a run with a PLAN job, followed by an EXECUTE job for each of two models."""
    plan = make_recipe_step("plan", "all_to_one", jobType="PLAN", outputs=[{"documentKey": "plan"}])
    stage = make_stage("work", plan, make_recipe_step("do"), edges=[("plan", "do")])
    await agent.call("add_dag", definition=make_definition("two-steps", stage))
    return await agent.run("two-steps")


async def test_waiting_get_next_step_returns_a_freed_step(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)
    waiting = await env.started("get_next_step", planId=plan["planId"])
    await env.agent.submit(taken)
    reply = await answered(waiting)
    assert (reply["status"], reply["stepOrder"]) == ("step_ready", 2)
    assert "retryAfterSeconds" not in reply
    assert len(env.calls) == 0


async def test_waiting_call_accepts_plan_id_in_upper_case(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)
    waiting = await env.started("get_next_step", planId=plan["planId"].upper())
    await env.agent.submit(taken)
    assert (await answered(waiting))["status"] == "step_ready"


async def test_get_next_step_with_free_step_answers_without_waiting(env: WaitingEnv) -> None:
    plan = await env.agent.plan(1)
    reply = await env.agent.call("get_next_step", planId=plan["planId"], waitSeconds=55)
    assert reply["status"] == "step_ready"
    assert env.bus.subscribed_orgs() == []


@pytest.mark.parametrize(
    ("decision", "status"), [("approve", "step_ready"), ("reject", "plan_failed")]
)
async def test_review_decision_ends_wait_of_get_next_step(
    env: WaitingEnv, decision: str, status: str
) -> None:
    plan = await env.agent.plan(2)
    taken = await env.agent.take(plan)
    await env.agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    waiting = await env.started("get_next_step", planId=plan["planId"])
    args = {"planId": plan["planId"], "decision": decision, "feedback": "So."}
    await env.agent.call("submit_user_decision", **args)
    assert (await answered(waiting))["status"] == status


async def test_all_waiting_calls_are_answered_when_the_plan_ends(env: WaitingEnv) -> None:
    plan = await env.agent.plan(1)
    taken = await env.agent.take(plan)
    waiting = [
        await env.started("get_next_step", planId=plan["planId"], sessionId=f"s{n}")
        for n in range(5)
    ]
    await env.agent.submit(taken)
    assert {(await answered(task))["status"] for task in waiting} == {"plan_complete"}
    assert (len(env.calls), env.bus.subscribed_orgs()) == (0, [])


async def test_each_freed_step_goes_to_the_call_that_waited_longest(env: WaitingEnv) -> None:
    plan = await chain(env.agent, 4)
    taken = await env.agent.take(plan)
    waiting = [
        await env.started("get_next_step", planId=plan["planId"], sessionId=f"s{n}")
        for n in range(3)
    ]
    for order, task in enumerate(waiting, 2):
        await env.agent.submit(taken)
        taken = await answered(task)
        assert taken["stepOrder"] == order
        assert [later.done() for later in waiting].count(True) == order - 1


async def test_change_makes_only_one_waiting_call_look_for_work(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    await env.agent.take(plan)
    tasks = [await env.started("get_next_step", planId=plan["planId"]) for _ in range(20)]
    tries = 0
    send = env.agent.dispatcher.services.database.pool.acquire

    async def counting(org: int | None) -> object:
        nonlocal tries
        tries += 1
        return await send(org)

    env.agent.dispatcher.services.database.pool.acquire = counting  # type: ignore[method-assign,assignment]
    env.bus.invalidate(env.agent.org_id)
    await env.until(lambda: tries > 0)
    await env.until(lambda: not connections_in_use(env))
    assert tries == 1
    for task in tasks:
        await canceled(task)


async def test_timed_out_wait_for_a_step_returns_retry_after_seconds(env: WaitingEnv) -> None:
    plan = await env.agent.plan(1)
    await env.agent.take(plan)
    waiting = await env.started("get_next_step", wait=3, planId=plan["planId"])
    env.loop.advance(2.9)
    await asyncio.sleep(0)
    assert not waiting.done()
    env.loop.advance(0.1)
    reply = await answered(waiting)
    assert (reply["status"], reply["retryAfterSeconds"]) == ("no_pending_steps", 1)


async def test_reply_without_a_step_contains_retry_after_seconds(env: WaitingEnv) -> None:
    plan = await env.agent.plan(1, stallMinutes=0.05)
    taken = await env.agent.take(plan)
    reply = await env.agent.call("get_next_step", planId=plan["planId"])
    assert (reply["status"], reply["retryAfterSeconds"]) == ("no_pending_steps", 3)
    await env.agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    reply = await env.agent.call("get_next_step", planId=plan["planId"], waitSeconds=0)
    assert (reply["status"], reply["retryAfterSeconds"]) == ("awaiting_review", 30)


@pytest.mark.parametrize("seconds", [-1, 56, 1.5, True])
async def test_wait_seconds_outside_the_allowed_range_is_refused(
    env: WaitingEnv, seconds: object
) -> None:
    plan = await env.agent.plan(1)
    args = {"planId": plan["planId"], "waitSeconds": seconds}
    error = await env.agent.refused("get_next_step", **args)
    assert (error["code"], error["details"]["faults"][0]["at"]) == ("INVALID_INPUT", "waitSeconds")


async def test_waiting_get_next_job_returns_a_freed_job(env: WaitingEnv) -> None:
    run = await two_models(env.agent)
    job = await env.agent.job(run)
    waiting = await env.started("get_next_job", runId=run["runId"])
    await env.agent.submit_documents(job)
    assert (await answered(waiting))["stepKey"] == "do"


async def test_call_waiting_for_jobs_of_a_model_does_not_delay_other_calls(env: WaitingEnv) -> None:
    run = await two_models(env.agent)
    job = await env.agent.job(run)
    other = await env.started("get_next_job", runId=run["runId"], modelId="unknown")
    waiting = await env.started("get_next_job", runId=run["runId"], modelId="b")
    await env.agent.submit_documents(job)
    assert (await answered(waiting))["modelId"] == "b"
    await canceled(other)


async def test_get_next_job_without_run_id_waits_for_any_run(env: WaitingEnv) -> None:
    waiting = await env.started("get_next_job")
    run = await two_models(env.agent)
    assert (await answered(waiting))["runId"] == run["runId"]


@pytest.mark.parametrize("run_id", [True, False])
async def test_waiting_call_gets_job_when_lease_of_former_holder_ends(
    env: WaitingEnv, *, run_id: bool
) -> None:
    run = await two_models(env.agent)
    job = await env.agent.job(run)
    env.world.clock.advance(seconds=890)
    named = {"runId": run["runId"]} if run_id else {}
    waiting = await env.started("get_next_job", **named)
    env.world.clock.advance(seconds=12)
    env.loop.advance(12)
    taken = await answered(waiting)
    assert (taken["jobId"], taken["attempt"]) == (job["jobId"], 2)


async def test_waiting_call_gets_failed_job_when_retry_delay_ends(env: WaitingEnv) -> None:
    run = await two_models(env.agent)
    job = await env.agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await env.agent.call("fail_job", **held, error="The line is dead.", retryable=True)
    nothing = await env.agent.call("get_next_job", runId=run["runId"])
    assert nothing["status"] == "nothing_ready"
    waiting = await env.started("get_next_job", runId=run["runId"])
    env.world.clock.advance(minutes=1)
    env.loop.advance(50)
    assert (await answered(waiting))["jobId"] == job["jobId"]


async def test_canceled_waiting_call_leaves_the_queue_and_claims_no_step(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)
    first = await env.started("get_next_step", planId=plan["planId"], sessionId="a")
    second = await env.started("get_next_step", planId=plan["planId"], sessionId="b")
    await canceled(first)
    assert len(env.calls) == 1
    await env.agent.submit(taken)
    assert (await answered(second))["stepOrder"] == 2


async def test_next_waiting_call_is_woken_if_woken_call_is_canceled(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)
    first = await env.started("get_next_step", planId=plan["planId"], sessionId="a")
    second = await env.started("get_next_step", planId=plan["planId"], sessionId="b")
    env.bus.subscribe(env.agent.org_id, _Canceling(first))
    await env.agent.submit(taken)
    assert (await answered(second))["stepOrder"] == 2


class _Canceling:
    """Subscriber that cancels a call as soon as a change event has woken the call."""

    def __init__(self, task: asyncio.Task[Body]) -> None:
        self._task = task

    def on_event(self, _: object) -> None:
        self._task.cancel()

    def on_gap(self) -> None:
        raise AssertionError

    def on_close(self) -> None:
        raise AssertionError


async def test_shutdown_answers_all_waiting_calls_without_database_queries(
    own_world: OrgEnv,
) -> None:
    env = WaitingEnv(own_world)
    plan = await env.agent.plan(1)
    await env.agent.take(plan)
    tasks = [await env.started("get_next_step", planId=plan["planId"]) for _ in range(10)]
    acquire = own_world.database.pool.acquire
    own_world.database.pool.acquire = unreachable  # type: ignore[method-assign,assignment]
    env.bus.close()
    replies = [await answered(task) for task in tasks]
    own_world.database.pool.acquire = acquire  # type: ignore[method-assign]
    assert {reply["status"] for reply in replies} == {"no_pending_steps"}
    assert all(reply["retryAfterSeconds"] == 5 for reply in replies)
    late = await env.agent.call("get_next_step", planId=plan["planId"], waitSeconds=55)
    assert late["status"] == "no_pending_steps"


async def test_waiting_call_with_revoked_credential_gets_no_step(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)

    async def revoked() -> bool:
        return False

    hooks = WaitHooks(still_authorized=revoked)
    other = AgentClient(env.agent.dispatcher, replace(env.agent.caller, hooks=hooks))
    args = {"planId": plan["planId"], "waitSeconds": 55}
    task = asyncio.create_task(other.refused("get_next_step", **args))
    await env.until(lambda: len(env.calls) == 1)
    waiting = await env.started("get_next_step", planId=plan["planId"])
    await env.agent.submit(taken)
    assert (await answered(task))["code"] == "FORBIDDEN"
    assert (await answered(waiting))["status"] == "step_ready"


async def test_delay_before_a_call_starts_to_wait_shortens_the_wait(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    await env.agent.take(plan)
    caller = replace(env.agent.caller, hooks=WaitHooks(delay_seconds=50))
    delayed = AgentClient(env.agent.dispatcher, caller)
    waiting = await env.started("get_next_step", agent=delayed, planId=plan["planId"])
    prompt = await env.started("get_next_step", planId=plan["planId"])
    env.loop.advance(6)
    assert (await answered(waiting))["status"] == "no_pending_steps"
    assert not prompt.done()
    await canceled(prompt)


@pytest.mark.parametrize(("most", "most_of_org"), [(1, 100), (100, 1)])
async def test_call_beyond_the_limit_of_waiting_calls_is_answered_immediately(
    world: OrgEnv, most: int, most_of_org: int
) -> None:
    env = WaitingEnv(world, most, most_of_org)
    plan = await env.agent.plan(1)
    await env.agent.take(plan)
    waiting = await env.started("get_next_step", planId=plan["planId"])
    reply = await env.agent.call("get_next_step", planId=plan["planId"], waitSeconds=55)
    assert (reply["status"], reply["retryAfterSeconds"]) == ("no_pending_steps", 5)
    await canceled(waiting)
    await canceled(await env.started("get_next_step", planId=plan["planId"]))


async def test_next_waiting_call_is_woken_if_woken_call_fails(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    await env.agent.take(plan)
    args = {"planId": plan["planId"], "waitSeconds": 55}

    async def broken() -> bool:
        raise RuntimeError

    caller = replace(env.agent.caller, hooks=WaitHooks(still_authorized=broken))
    other = AgentClient(env.agent.dispatcher, caller)
    task = asyncio.create_task(other.refused("get_next_step", **args))
    await env.until(lambda: len(env.calls) == 1)
    waiting = await env.started("get_next_step", planId=plan["planId"])
    await env.agent.modify(plan, "add_steps", steps=[make_step("More.")])
    assert (await answered(task))["code"] == "UNAVAILABLE"
    assert (await answered(waiting))["status"] == "step_ready"


async def test_waiting_calls_with_the_same_idempotency_key_get_the_same_step(
    env: WaitingEnv,
) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)
    args = {"planId": plan["planId"], "sessionId": "a", "idempotencyKey": "k"}
    waiting = await env.started("get_next_step", **args)
    repeated = await env.started("get_next_step", **args)
    await env.agent.submit(taken)
    first, second = await answered(waiting), await answered(repeated)
    assert first["stepOrder"] == second["stepOrder"] == 2
    assert second["replayed"]
    third = await env.agent.call("get_next_step", waitSeconds=55, **args)
    assert {**third, "replayed": None} == {**second, "replayed": None}


async def test_repeated_call_waits_again_if_first_call_got_no_step(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    taken = await env.agent.take(plan)
    args = {"planId": plan["planId"], "sessionId": "a", "idempotencyKey": "k"}
    waiting = await env.started("get_next_step", **args)
    env.loop.advance(55)
    assert (await answered(waiting))["status"] == "no_pending_steps"
    await env.agent.submit(taken)
    reply = await env.agent.call("get_next_step", waitSeconds=55, **args)
    assert (reply["stepOrder"], "replayed" in reply) == (2, False)


async def test_timed_out_wait_returns_latest_reply_without_database_query(
    own_world: OrgEnv,
) -> None:
    env = WaitingEnv(own_world)
    plan = await env.agent.plan(2)
    taken = await env.agent.take(plan)
    await env.agent.take(plan, another=True)
    tasks = [await env.started("get_next_step", planId=plan["planId"]) for _ in range(10)]
    events = len(await own_world.entries(env.agent.org_id, plan["planId"]))
    await env.agent.call("request_user_review", stepId=taken["stepId"], summary="Right?")
    await env.until(lambda: not connections_in_use(env) and has_seen(env, "awaiting_review"))
    acquire = own_world.database.pool.acquire
    own_world.database.pool.acquire = unreachable  # type: ignore[method-assign,assignment]
    env.loop.advance(55)
    replies = [await answered(task) for task in tasks]
    own_world.database.pool.acquire = acquire  # type: ignore[method-assign]
    assert {(r["status"], r["retryAfterSeconds"]) for r in replies} == {("awaiting_review", 1)}
    assert len(await own_world.entries(env.agent.org_id, plan["planId"])) == events + 1


def has_seen(env: WaitingEnv, status: str) -> bool:
    """Return whether the waiting calls, if they timed out now, would return this status."""
    ((queues, _),) = env.calls._orgs.values()
    (queue,) = queues._all()
    return queue.reply["status"] == status


async def unreachable(org: int | None) -> object:
    raise AssertionError(org)


async def test_call_is_answered_if_step_becomes_free_just_before_call_waits(
    env: WaitingEnv,
) -> None:
    plan = await chain(env.agent)
    services = replace(env.agent.dispatcher.services, bus=Bus())
    other = AgentClient(ServerDispatcher(services, env.agent.dispatcher.calls), env.agent.caller)
    taken = await other.take(plan)
    submitted = asyncio.Event()

    def publish() -> None:
        env.bus.publish(env.agent.org_id, ChangeEvent("plan", plan["planId"], 1_000))

    async def after_submission() -> bool:
        await submitted.wait()
        return True

    hooks = WaitHooks(release_slot=publish, still_authorized=after_submission)
    waiting = await env.started(
        "get_next_step",
        agent=AgentClient(env.agent.dispatcher, replace(env.agent.caller, hooks=hooks)),
        planId=plan["planId"],
    )
    await other.submit(taken)
    submitted.set()
    assert (await answered(waiting))["stepOrder"] == 2


def connections_in_use(env: WaitingEnv) -> int:
    return len(env.world.database.pool._held)


async def test_waiting_call_holds_no_connection_and_no_lock(own_world: OrgEnv) -> None:
    env = WaitingEnv(own_world)
    plan = await env.agent.plan(1)
    await env.agent.take(plan)
    tasks = [await env.started("get_next_step", planId=plan["planId"]) for _ in range(20)]
    assert connections_in_use(env) == 0
    (rows,) = await own_world.database.read_org(
        env.agent.org_id,
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and xact_start is not null",
    )
    assert rows[0][0] == 0
    for task in tasks:
        await canceled(task)


async def test_change_by_another_process_ends_wait_of_get_next_step(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    services = replace(env.agent.dispatcher.services, bus=Bus())
    other = AgentClient(ServerDispatcher(services, env.agent.dispatcher.calls), env.agent.caller)
    taken = await other.take(plan)
    waiting = await env.started("get_next_step", planId=plan["planId"])
    poller = pg_notify.ChangePoller()
    await poller.poll(env.world.database, env.bus)
    await other.submit(taken)
    assert not waiting.done()
    await poller.poll(env.world.database, env.bus)
    assert (await answered(waiting))["stepOrder"] == 2


async def test_waiting_call_looks_for_work_again_after_lost_change_events(env: WaitingEnv) -> None:
    plan = await chain(env.agent)
    services = replace(env.agent.dispatcher.services, bus=Bus())
    other = AgentClient(ServerDispatcher(services, env.agent.dispatcher.calls), env.agent.caller)
    taken = await other.take(plan)
    waiting = await env.started("get_next_step", planId=plan["planId"])
    await other.submit(taken)
    assert not waiting.done()
    env.bus.invalidate(env.agent.org_id)
    assert (await answered(waiting))["stepOrder"] == 2
