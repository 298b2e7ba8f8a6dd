"""Steps whose last two jobs end concurrently: the step closes once, and the next one opens once.

By default, the test repeats this two hundred times. With `WAYBOOK_WALK=wide`, which `make harness
NAME=fan-in` sets, it does so ten thousand times.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv, make_env, with_parts
from patience import PATIENCE_SECONDS
from postgres_servers import Server, new_database
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.runs.slots import RunCache

TRIES = 10_000 if os.environ.get("WAYBOOK_WALK") == "wide" else 200
#: Number of runs that are prepared before their last jobs end.
RUNS_PER_BATCH = 100


@pytest.fixture
async def env_with_two_connections(eighteen: Server) -> AsyncIterator[OrgEnv]:
    with new_database(eighteen) as place:
        async with make_env(place, pool_size=2) as world:
            await world.agent.call("add_dag", definition=fan_in())
            yield world


def fan_in() -> Body:
    """Return a DAG whose first step has a job for each of two models; the next step needs both."""
    both, then = make_recipe_step("both"), make_recipe_step("then", "all_to_one")
    return make_definition("fan-in", make_stage("work", both, then, edges=[("both", "then")]))


class Overlap:
    """Barrier for two transactions, so that neither commits before both have begun.

    For a cached run, the statements that lock the run and commit the call are sent together. Both
    calls have then computed their changes before either of them locks the run.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.locking: list[Transaction] = []
        self.both = asyncio.Event()
        send, commit = Transaction.send, Transaction.commit

        async def sending(tx: Transaction, *statements: Any) -> Results:  # noqa: ANN401 - as the original
            self.ask(tx)
            return await send(tx, *statements)

        async def committing(tx: Transaction, *statements: Any) -> Results:  # noqa: ANN401 - as the original
            self.ask(tx)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.both.wait()
            return await commit(tx, *statements)

        monkeypatch.setattr(Transaction, "send", sending)
        monkeypatch.setattr(Transaction, "commit", committing)

    def ask(self, tx: Transaction) -> None:
        if tx not in self.locking:
            self.locking.append(tx)
        if len(self.locking) == 2:
            self.both.set()

    def start(self) -> None:
        self.locking = []
        self.both.clear()


def in_another_process(agent: AgentClient) -> AgentClient:
    """Return an agent with its own run cache; calls with the same cache wait for each other."""
    services = with_parts(agent.dispatcher.services, RunCache())
    return AgentClient(ServerDispatcher(services, agent.dispatcher.calls), agent.caller)


async def claim_last_two_jobs(agent: AgentClient) -> tuple[Body, Body]:
    """Start a run, and claim both jobs of its first step."""
    run = await agent.run("fan-in")
    return await agent.job(run), await agent.job(run)


async def test_step_closes_once_if_the_last_jobs_end_concurrently(
    env_with_two_connections: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = env_with_two_connections.agent
    agents = agent, in_another_process(agent)
    for _ in range(TRIES // RUNS_PER_BATCH):
        waiting = [await claim_last_two_jobs(agent) for _ in range(RUNS_PER_BATCH)]
        with monkeypatch.context() as patch:
            overlap = Overlap(patch)
            for pair in waiting:
                overlap.start()
                results = [a.submit_documents(job) for a, job in zip(agents, pair, strict=True)]
                ended = await asyncio.gather(*results)
                closed = sorted(done["stage"]["progress"]["completedSteps"] for done in ended)
                assert closed == [0, 1]
    await check_each_step_closed_once(env_with_two_connections, closed=TRIES)


async def check_each_step_closed_once(world: OrgEnv, *, closed: int) -> None:
    """Check that `closed` first steps have closed, and that each opened its next step once."""
    queries = (
        """select count(*) from stage_step
            where step_key = 'both' and closed_at is not null and done = 2 and failed = 0""",
        "select count(*) from stage_step where step_key = 'both' and closed_at is null",
        "select count(*), count(distinct run_id) from job where step_key = 'then'",
        "select count(*) from document",
    )
    counts = [rows[0] for rows in await world.database.read_org(world.agent.org_id, *queries)]
    assert counts == [(closed,), (0,), (closed, closed), (2 * closed,)]


async def test_step_with_failed_job_stays_open_until_job_is_retried(
    env_with_two_connections: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = env_with_two_connections.agent
    other = in_another_process(agent)
    for _ in range(20):
        good, bad = await claim_last_two_jobs(agent)
        held = {"jobId": bad["jobId"], "attempt": bad["attempt"]}
        with monkeypatch.context() as patch:
            Overlap(patch).start()
            await asyncio.gather(
                agent.submit_documents(good),
                other.call("fail_job", **held, error="No.", retryable=False),
            )
        stage = (await agent.progress(good))["stages"][0]
        assert stage["steps"][0]["jobs"] == {"done": 1, "active": 0, "failed": 1}
        await agent.call("retry_failed", runId=good["runId"], stageSlug="work")
        done = await agent.submit_documents(await agent.job(good))
        assert done["stage"]["progress"]["completedSteps"] == 1
    await check_each_step_closed_once(env_with_two_connections, closed=20)


async def test_two_concurrent_get_next_job_calls_return_different_jobs(
    env_with_two_connections: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = env_with_two_connections.agent
    other = in_another_process(agent)
    for _ in range(20):
        run = await agent.run("fan-in")
        with monkeypatch.context() as patch:
            Overlap(patch).start()
            taken = await asyncio.gather(agent.job(run), other.job(run))
        assert {job["modelId"] for job in taken} == {"a", "b"}
        assert (await agent.call("get_next_job", runId=run["runId"]))["status"] == "nothing_ready"
        for job in taken:
            await agent.submit_documents(job)
    await check_each_step_closed_once(env_with_two_connections, closed=20)
