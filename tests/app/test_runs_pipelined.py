"""Calls on a cached run that compute their changes before earlier calls have committed theirs.

Each test delays the first message (SQL statements sent together) that writes the run, until the
next calls have computed their changes. At the end, the fixture `world` verifies the audit of the
run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

import psycopg
import pytest

from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.dispatcher import outcome_of
from waybook.app.request.caller import Answer
from waybook.errors import Unavailable
from waybook.store.driver.connection import DbConnection, Message, Results
from waybook.store.runs.slots import RunCache, RunSlot

MODELS = [f"m{number}" for number in range(12)]
#: Number of further calls, which compute their changes while the first message is delayed.
WAITING = 5

#: Function that sends the delayed message.
Send: TypeAlias = Callable[[], Awaitable[Results]]
#: Function that is called when the first message that writes the run is about to be sent.
Intercept: TypeAlias = Callable[[DbConnection, Send], Awaitable[Results]]


@pytest.fixture
async def run(agent: AgentClient) -> Body:
    """Return a run with two jobs for each model, which the first claim has put into the cache."""
    stage = make_stage("one", make_recipe_step("one"), make_recipe_step("two"))
    await agent.call("add_dag", definition=make_definition("wide", stage))
    run = await agent.run("wide", MODELS)
    await agent.submit_documents(await agent.job(run))
    return run


@contextmanager
def intercepted_write(intercept: Intercept) -> Iterator[None]:
    """Instead of sending the first message that updates a cached run, call `intercept`."""
    original, is_first = DbConnection.send, [True]

    async def send(line: DbConnection, opening: Message, statements: Message) -> Results:
        is_write = any("update run" in str(statement) for statement in statements)
        if not is_write or not is_first[0]:
            return await original(line, opening, statements)
        is_first[0] = False
        return await intercept(line, lambda: original(line, opening, statements))

    with patch.object(DbConnection, "send", send):
        yield


def slot_of(agent: AgentClient) -> RunSlot:
    (slot,) = agent.dispatcher.services.shared(RunCache)._slots.values()
    return slot


async def until_decided(agent: AgentClient, calls: int = WAITING) -> None:
    """Wait until the cache has the changes of this many calls that are not committed yet."""
    committed = slot_of(agent).cached
    assert committed is not None
    for _ in range(10_000):
        state = slot_of(agent).state
        if state is not None and state.head.seq >= committed.head.seq + calls:
            return
        await asyncio.sleep(0)
    raise AssertionError("not all calls computed their changes while the message was delayed")


def start(*calls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(call) for call in calls]


def claims(agent: AgentClient, run: Body) -> list[asyncio.Task[Answer]]:
    """Start a claim for each of several sessions; the first claim sends the delayed message."""
    return start(
        *(
            agent.ask(
                "get_next_job",
                {"runId": run["runId"], "sessionId": f"s{number}", "idempotencyKey": f"k{number}"},
            )
            for number in range(1 + WAITING)
        )
    )


def job_ids(answers: list[Answer]) -> set[object]:
    """Return the ids of the jobs that the calls claimed; fail if a call was refused."""
    assert [answer.body for answer in answers if answer.is_error] == []
    return {answer.body["jobId"] for answer in answers}


async def claimed_jobs(world: OrgEnv, agent: AgentClient, run: Body) -> int:
    """Return the number of claims in the run's audit; check that no entry is missing."""
    entries = await world.entries(agent.org_id, run["runId"])
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    return sum(entry.event == "step_started" for entry in entries)


async def test_reply_is_sent_only_after_the_commit_of_the_call(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    before = await claimed_jobs(world, agent, run)

    async def hold(_: DbConnection, send: Send) -> Results:
        await until_decided(agent, 1 + WAITING)
        assert not any(call.done() for call in calls)
        assert await claimed_jobs(world, agent, run) == before
        return await send()

    with intercepted_write(hold):
        calls = claims(agent, run)
        answers = await asyncio.gather(*calls)
    assert len(job_ids(answers)) == 1 + WAITING
    assert await claimed_jobs(world, agent, run) == before + 1 + WAITING


@pytest.mark.parametrize("is_committed", [False, True])
async def test_lost_connection_fails_only_the_calls_already_sent(
    world: OrgEnv, agent: AgentClient, run: Body, *, is_committed: bool
) -> None:
    before = await claimed_jobs(world, agent, run)

    async def lose(line: DbConnection, send: Send) -> Results:
        await until_decided(agent)
        if is_committed:
            await send()
            line.close()
            raise Unavailable("the answer was lost")
        with psycopg.connect(world.place.owner_dsn, autocommit=True) as admin:
            pid = line.connection.pgconn.backend_pid
            admin.execute("select pg_terminate_backend(%s::integer, 5000)", (pid,))
        return await send()

    with intercepted_write(lose):
        first, *others = await asyncio.gather(*claims(agent, run))
    assert outcome_of(first) == "UNAVAILABLE"
    taken = job_ids(others)
    assert len(taken) == WAITING
    assert await claimed_jobs(world, agent, run) == before + WAITING + is_committed
    repeated = await agent.job(run, sessionId="s0", idempotencyKey="k0")
    assert repeated["jobId"] not in taken
    assert await claimed_jobs(world, agent, run) == before + WAITING + 1


async def test_call_with_repeated_idempotency_key_does_not_fail_later_calls(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    """The database rejects the repeated call, because the idempotency key is already stored."""
    named = {"another": True, "sessionId": "s0", "idempotencyKey": "k"}
    earlier = await agent.job(run, **named)
    before = await claimed_jobs(world, agent, run)

    async def hold(_: DbConnection, send: Send) -> Results:
        await until_decided(agent)
        return await send()

    with intercepted_write(hold):
        repeated, *others = await asyncio.gather(
            agent.job(run, **named),
            *(agent.job(run, sessionId=f"s{number}") for number in range(1, 1 + WAITING)),
        )
    assert repeated["jobId"] == earlier["jobId"]
    assert len({job["jobId"] for job in (repeated, *others)}) == 1 + WAITING
    assert await claimed_jobs(world, agent, run) == before + WAITING


@pytest.mark.parametrize("is_before", [True, False])
async def test_job_just_claimed_by_another_process_is_not_claimed_again(
    world: OrgEnv, agent: AgentClient, run: Body, *, is_before: bool
) -> None:
    """Another process claims a job, either just before the first message is sent or just after."""
    before = await claimed_jobs(world, agent, run)
    elsewhere: list[Body] = []

    async def interfere(_: DbConnection, send: Send) -> Results:
        await until_decided(agent)
        if is_before:
            elsewhere.append(await agent.elsewhere().job(run))
        results = await send()
        if not is_before:
            elsewhere.append(await agent.elsewhere().job(run))
        return results

    with intercepted_write(interfere):
        answers = await asyncio.gather(*claims(agent, run))
    assert len({*job_ids(answers), elsewhere[0]["jobId"]}) == 2 + WAITING
    assert await claimed_jobs(world, agent, run) == before + 2 + WAITING


async def test_run_canceled_by_another_process_hands_out_no_more_jobs(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    before = await claimed_jobs(world, agent, run)

    async def cancel(_: DbConnection, send: Send) -> Results:
        await until_decided(agent)
        results = await send()
        await agent.elsewhere().call("cancel_run", runId=run["runId"], reason="Enough.")
        return results

    with intercepted_write(cancel):
        answers = await asyncio.gather(*claims(agent, run))
    statuses = [answer.body["status"] for answer in answers]
    assert statuses == ["job_ready", *["run_canceled"] * WAITING]
    assert await claimed_jobs(world, agent, run) == before + 1


async def test_result_of_job_just_claimed_by_another_process_is_refused(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    """The other process has increased the attempt, but the cached run has the old attempt."""
    job = await agent.job(run, sessionId="slow")

    async def take_over(_: DbConnection, send: Send) -> Results:
        await until_decided(agent, 2)
        results = await send()
        world.clock.advance(hours=2)
        elsewhere.append(await agent.elsewhere().job(run, sessionId="fast"))
        return results

    elsewhere: list[Body] = []
    held = {"jobId": job["jobId"], "attempt": job["attempt"], "documents": [{"content": "late"}]}
    with intercepted_write(take_over):
        _, refused = await asyncio.gather(
            agent.job(run, sessionId="other"),
            agent.ask("submit_job_result", {**held, "sessionId": "slow"}),
        )
    assert elsewhere[0]["jobId"] == job["jobId"]
    assert outcome_of(refused) == "STALE_ATTEMPT"


async def test_call_canceled_before_the_commit_does_not_fail_other_calls(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    async def cancel(_: DbConnection, send: Send) -> Results:
        await until_decided(agent)
        calls[1].cancel()
        return await send()

    with intercepted_write(cancel):
        calls = claims(agent, run)
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[1], asyncio.CancelledError)
    done = [answer for answer in answers if isinstance(answer, Answer)]
    assert len(job_ids(done)) == WAITING
    # The later calls were computed from the canceled claim, so the claim is committed with them,
    # and repeating the canceled call returns the claimed job.
    again = await agent.job(run, sessionId="s1", idempotencyKey="k1")
    assert again["jobId"] not in job_ids(done)
    await claimed_jobs(world, agent, run)
