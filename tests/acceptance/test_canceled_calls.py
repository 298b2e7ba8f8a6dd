"""Tool calls canceled while they run: no transaction stays open, and no change is partial."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from org_env import AgentClient, OrgEnv
from patience import PATIENCE_SECONDS
from statements import lock_rows
from tool_calls import MUTATING, valid_call
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await condition():  # noqa: ASYNC110 - the server sends no event
                await asyncio.sleep(0.002)
    except TimeoutError:
        pytest.fail(f"waited in vain until {what}")


def transactions(world: OrgEnv) -> list[tuple[str, str]]:
    with psycopg.connect(world.place.admin_dsn, autocommit=True) as admin:
        return admin.execute(
            """select state, query from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()
                  and state <> 'idle' and backend_type = 'client backend'"""
        ).fetchall()


async def is_quiet(world: OrgEnv) -> bool:
    return not await asyncio.to_thread(transactions, world)


async def test_call_canceled_while_waiting_for_lock_writes_nothing(own_world: OrgEnv) -> None:
    agent = own_world.agent
    plan = await agent.plan()
    before = await own_world.stored(agent.org_id, plan["planId"])
    async with own_world.database.org_transaction(agent.org_id) as tx:
        await tx.send(lock_rows("plan"))
        waiting = asyncio.create_task(agent.take(plan))

        async def waits() -> bool:
            counting = "select count(*) from pg_locks where not granted"
            return bool((await own_world.database.read_org(agent.org_id, counting))[0][0][0])

        await until(waits, "the call waits")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await until(lambda: is_quiet(own_world), "nothing is open")
    assert await own_world.stored(agent.org_id, plan["planId"]) == before
    assert (await agent.take(plan))["stepOrder"] == 1


@pytest.mark.parametrize("tool", MUTATING)
async def test_call_canceled_before_commit_writes_nothing(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    agent = own_world.agent
    args = {**await valid_call(agent, tool), "idempotencyKey": "k"}
    written = asyncio.Event()
    commit = Transaction.commit

    async def stopping(tx: Transaction, *statements: str) -> Results:
        await tx.send(*statements)
        written.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(Transaction, "commit", stopping)
    task = asyncio.create_task(agent.call(tool, **args))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    monkeypatch.setattr(Transaction, "commit", commit)
    await until(lambda: is_quiet(own_world), "nothing is open")
    assert "replayed" not in await agent.call(tool, **args)


async def test_canceled_tool_call_commits_completely_or_not_at_all(own_world: OrgEnv) -> None:
    agent = own_world.agent
    plan = await agent.plan(100)
    for turns in range(60):
        task = asyncio.create_task(agent.take(plan, sessionId=f"s{turns}"))
        for _ in range(turns * 15):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until(lambda: is_quiet(own_world), "nothing is open")
    status = await agent.status(plan)
    assert status["totalSteps"] == 100
    await _end(agent, own_world, plan["planId"])


async def _end(agent: AgentClient, world: OrgEnv, plan_id: str) -> None:
    rows = await world.stored(agent.org_id, plan_id)
    for step_id, step in rows["step"].items():
        held = {"stepId": step_id, "attempt": step["attempt"]}
        await agent.call("submit_step_result", **held, resultSummary="done")
    assert (await agent.call("get_next_step", planId=plan_id))["status"] == "plan_complete"
