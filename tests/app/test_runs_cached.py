"""Jobs of a cached run, which are claimed and submitted by one process or by several."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.context.job import JobContext
from waybook.store.driver.connection import DbConnection, Message, Results

MODELS = [f"m{number}" for number in range(12)]


@pytest.fixture
async def run(agent: AgentClient) -> Body:
    return await make_cached_run(agent)


async def make_cached_run(agent: AgentClient) -> Body:
    """Return a run that is in the cache, after a first job was claimed and submitted."""
    stage = make_stage("one", make_recipe_step("one"), make_recipe_step("two"))
    definition = make_definition("wide", stage)
    await agent.call("add_dag", definition=definition)
    run = await agent.run("wide", MODELS)
    first = await agent.job(run)
    await agent.submit_documents(first)
    return {**run, "submittedModel": first["modelId"]}


@contextmanager
def statements_sent() -> Iterator[list[str]]:
    """Yield a list of the SQL statements that are sent within the block."""
    sent, original = list[str](), DbConnection.send

    async def send(line: DbConnection, opening: Message, statements: Message) -> Results:
        sent.extend(map(str, statements))
        return await original(line, opening, statements)

    with patch.object(DbConnection, "send", send):
        yield sent


@contextmanager
def messages_sent() -> Iterator[list[int]]:
    """Yield a list with the number of SQL statements of each message sent within the block."""
    sent, original = list[int](), DbConnection.send

    async def send(line: DbConnection, opening: Message, statements: Message) -> Results:
        if not any("mcp_tool_call_log" in str(statement) for statement in statements):
            sent.append(len(statements))
        return await original(line, opening, statements)

    with patch.object(DbConnection, "send", send):
        yield sent


def locks_run(sent: list[str]) -> bool:
    return any("for update of r" in text for text in sent)


async def check_chain(world: OrgEnv, agent: AgentClient, run: Body) -> None:
    """Check that no number is missing among the run's audit entries."""
    entries = await world.entries(agent.org_id, run["runId"])
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]


async def test_cached_run_is_locked_only_during_the_write(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    with statements_sent() as sent:
        job = await agent.job(run)
        await agent.submit_documents(job)
    assert not locks_run(sent)
    await check_chain(world, agent, run)


async def test_submit_with_take_next_on_cached_run_uses_one_transaction(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    # Choose a model whose job is still pending; the submitted job may be of any model.
    model = next(model for model in MODELS if model != run["submittedModel"])
    job = await agent.job(run, modelId=model, sessionId="s")
    with statements_sent() as sent:
        reply = await agent.submit_documents(job, takeNext=True, sessionId="s")
    assert not locks_run(sent)
    assert (reply["status"], reply["modelId"], reply["stepKey"]) == ("job_ready", model, "two")
    assert reply["submitted"]["documentIds"]
    with statements_sent() as sent:
        last = await agent.submit_documents(reply, takeNext=True, sessionId="s")
    assert last["status"] == "nothing_ready"
    assert locks_run(sent)
    await check_chain(world, agent, run)


async def make_chained_run(agent: AgentClient, more: str = "") -> Body:
    """Return a run with two steps: the first is complete, and the second reads its documents."""
    first = make_recipe_step("one")
    second = make_recipe_step("two", inputsRequired=[{"documentKey": "one"}])
    stage = make_stage("one", first, second, edges=[("one", "two")])
    definition = make_definition("chained", stage)
    await agent.call("add_dag", definition=definition)
    run = await agent.run("chained", MODELS)
    for _ in MODELS:
        job = await agent.job(run)
        await agent.submit_documents(job, f"Text of {job['modelId']}.{more}")
    return run


async def test_claim_or_submit_on_cached_run_sends_a_single_message(
    world: OrgEnv, agent: AgentClient
) -> None:
    run = await make_chained_run(agent)
    await agent.submit_documents(await agent.job(run))
    with messages_sent() as sent:
        for _ in range(6):
            job = await agent.job(run)
            (job_input,) = job["inputs"]
            assert job_input["content"] == f"Text of {job['modelId']}."
            await agent.submit_documents(job)
    assert sent == [3, 6] * 6
    await check_chain(world, agent, run)


async def test_cached_run_is_updated_after_a_change_by_another_process(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    other = agent.elsewhere()
    taken = [await worker.job(run) for _ in range(3) for worker in (agent, other)]
    assert len({job["jobId"] for job in taken}) == 6
    for number, job in enumerate(taken):
        await (agent, other)[number % 2].submit_documents(job)
    await agent.call("cancel_run", runId=run["runId"], reason="Enough.")
    reply = await other.call("get_next_job", runId=run["runId"])
    assert reply["status"] == "run_canceled"
    await check_chain(world, agent, run)


async def test_concurrent_claims_of_a_session_return_the_same_job(
    agent: AgentClient, run: Body
) -> None:
    claims = [agent.job(run, sessionId="s") for _ in range(4)]
    assert len({job["jobId"] for job in await asyncio.gather(*claims)}) == 1


async def test_concurrent_claims_and_submits_on_a_run_share_database_messages(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    async def work(name: str) -> str:
        common = {"sessionId": name, "idempotencyKey": name}
        job = await agent.job(run, **common)
        await agent.submit_documents(job, **common)
        repeated = await agent.submit_documents(job, **common)
        assert repeated["jobId"] == job["jobId"]
        return str(job["jobId"])

    workers = 8
    with messages_sent() as sent:
        done = await asyncio.gather(*(work(f"worker-{number}") for number in range(workers)))
    assert len({*done}) == workers
    # Each repeated submit needs two messages: a write, which is rejected, and a query for the first
    # answer. If calls were not grouped, each worker would also need a message for the claim and one
    # for the submit.
    assert len(sent) < 4 * workers
    await check_chain(world, agent, run)
    completed = [
        entry
        for entry in await world.entries(agent.org_id, run["runId"])
        if entry.event == "step_completed"
    ]
    assert len(completed) == workers + 1


async def test_audit_times_of_a_cached_run_are_in_utc(world: OrgEnv, agent: AgentClient) -> None:
    world.dispatcher.services.database.frozen_now = None
    run = await make_cached_run(agent)
    with statements_sent() as sent:
        await agent.submit_documents(await agent.job(run))
    assert not locks_run(sent)
    entries = await world.entries(agent.org_id, run["runId"])
    assert [entry.seq for entry in entries if "+05:30" in entry.details] == []


@pytest.mark.parametrize("length", [10, 8_500, 20_000])
async def test_job_context_is_the_same_without_the_shortcut_for_short_texts(
    agent: AgentClient, length: int
) -> None:
    run = await make_chained_run(agent, "é" * (length // 2) + "\n" * (length // 2))
    job = await agent.job(run, sessionId="s")
    with patch.object(JobContext, "_complete_packet", return_value=None) as complete:
        again = await agent.job(run, sessionId="s")
    assert complete.called
    assert again.pop("resumed")
    assert again == job
