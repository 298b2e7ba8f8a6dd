"""Tool calls that the database driver commits in one transaction with other calls."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from grouped_calls import BLOCKING_MESSAGES, busy_org
from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from sent_messages import count_messages
from waybook.errors import Unavailable
from waybook.store.driver import group_commit
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.group_commit import MAX_CALLS
from waybook.store.driver.queries import Statement

AGENTS = 16


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls wait up to a minute, so that no timeout sends a group before it is complete."""
    monkeypatch.setattr(group_commit, "MAX_WAIT_SECONDS", 60.0)


async def grouped(agent: AgentClient, *calls: Awaitable[Any]) -> list[Any]:
    """Make these calls so that the driver sends them as one group; return their replies."""
    database = agent.dispatcher.services.database
    async with busy_org(database, agent.org_id, len(calls)):
        tasks = [asyncio.ensure_future(call) for call in calls]
    return await asyncio.gather(*tasks)


async def warm_plans(agent: AgentClient, count: int = AGENTS) -> list[Body]:
    """Create plans, which are then in the cache of the process."""
    return [await agent.plan(3) for _ in range(count)]


async def test_concurrent_calls_on_cached_plans_share_commits(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = await warm_plans(agent)
    messages = count_messages(monkeypatch)
    taken = await grouped(agent, *[agent.take(p, sessionId=f"s{n}") for n, p in enumerate(plans)])
    assert [step["stepOrder"] for step in taken] == [1] * AGENTS
    assert len(messages) == BLOCKING_MESSAGES + AGENTS // MAX_CALLS
    messages.clear()
    await grouped(agent, *[agent.submit(t, sessionId=f"s{n}") for n, t in enumerate(taken)])
    assert len(messages) == BLOCKING_MESSAGES + AGENTS // MAX_CALLS
    for plan in plans:
        assert (await agent.take(plan))["stepOrder"] == 2


async def test_concurrent_calls_on_cached_runs_share_a_commit(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage("one", make_recipe_step("one"), make_recipe_step("two"))
    await agent.call("add_dag", definition=make_definition("wide", stage))
    runs = [await agent.run("wide", "abcdef") for _ in range(3)]
    for run in runs:
        await agent.submit_documents(await agent.job(run))
    jobs = [await agent.job(run) for run in runs]
    messages = count_messages(monkeypatch)
    await grouped(agent, *[agent.submit_documents(job) for job in jobs])
    assert len(messages) == BLOCKING_MESSAGES + 1


async def test_shared_commit_reloads_an_outdated_cached_plan(agent: AgentClient) -> None:
    plans = await warm_plans(agent, 4)
    await agent.elsewhere().take(plans[2], sessionId="other")
    taken = await grouped(
        agent, *[agent.take(p, sessionId="s", idempotencyKey=f"k{n}") for n, p in enumerate(plans)]
    )
    assert [step["stepOrder"] for step in taken] == [1, 1, 2, 1]
    assert not any("replayed" in step for step in taken)
    assert [(await agent.take(p, sessionId="t"))["stepOrder"] for p in plans] == [2, 2, 3, 2]


@pytest.mark.parametrize("is_committed", [False, True])
async def test_calls_retried_after_a_broken_connection_count_once(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    agent = own_world.agent
    plans = await warm_plans(agent, 4)
    commit = Transaction.commit

    async def losing(tx: Transaction, *statements: Statement | str) -> Results:
        if statements[0] != group_commit.SET_LOCK_TIMEOUT:
            return await commit(tx, *statements)
        await (commit if is_committed else Transaction.send)(tx, *statements)
        raise Unavailable("the connection to the database broke")

    monkeypatch.setattr(Transaction, "commit", losing)
    arguments = [
        {"planId": plan["planId"], "sessionId": "s", "idempotencyKey": f"k{number}"}
        for number, plan in enumerate(plans)
    ]
    errors = await grouped(agent, *[agent.refused("get_next_step", **a) for a in arguments])
    assert [error["code"] for error in errors] == ["UNAVAILABLE"] * 4
    replies = [await agent.call("get_next_step", **a) for a in arguments]
    assert [reply["stepOrder"] for reply in replies] == [1] * 4
    assert [reply.get("replayed", False) for reply in replies] == [is_committed] * 4


async def test_canceled_call_in_a_shared_commit_still_publishes_change_event(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = own_world.agent
    plans = await warm_plans(agent, 2)
    commit = Transaction.commit
    sent, may_answer = asyncio.Event(), asyncio.Event()

    async def held(tx: Transaction, *statements: Statement | str) -> Results:
        results = await commit(tx, *statements)
        if statements[0] == group_commit.SET_LOCK_TIMEOUT:
            sent.set()
            await may_answer.wait()
        return results

    monkeypatch.setattr(Transaction, "commit", held)
    async with busy_org(own_world.database, agent.org_id, 2):
        canceled, other = [asyncio.create_task(agent.take(p, sessionId="s")) for p in plans]
    await sent.wait()
    published: list[object] = []
    bus = own_world.dispatcher.services.bus
    monkeypatch.setattr(bus, "publish", lambda _org, event: published.append(event))
    canceled.cancel()
    await asyncio.gather(canceled, return_exceptions=True)
    may_answer.set()
    assert (await other)["stepOrder"] == 1
    assert canceled.cancelled()
    assert len(published) == 2
    assert (await agent.take(plans[0], sessionId="t"))["stepOrder"] == 2
