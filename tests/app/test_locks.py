"""Locks on rows: a call locks its plan or run first, and fails if it waits too long for a lock."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from org_env import AgentClient, OrgEnv, make_env
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from statements import lock_rows
from tool_calls import MUTATING, valid_call
from waybook.app.registry import TOOLS
from waybook.store.plans.cache import PlanCache

#: Tools that create something, or concern caps and workers, and therefore lock no plan or run.
MAKING = {
    *("create_research_plan", "copy_plan", "start_skill"),
    *("start_run", "copy_run", "add_dag"),
    *("reserve_work", "settle_work", "decide_cap", "report_worker"),
}
LOCKING = [tool for tool in MUTATING if tool not in MAKING]


@pytest.fixture
async def env_with_short_lock_wait(shared_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(shared_place, lock_timeout="50ms") as world:
        yield world


@pytest.mark.parametrize("tool", LOCKING)
async def test_tool_that_needs_a_locked_row_returns_busy(
    env_with_short_lock_wait: OrgEnv, tool: str
) -> None:
    agent = env_with_short_lock_wait.agent
    args = await valid_call(agent, tool)
    async with env_with_short_lock_wait.database.org_transaction(agent.org_id) as tx:
        await tx.send(lock_rows("plan"), lock_rows("skill_execution"), lock_rows("run"))
        error = await agent.refused(tool, **args, idempotencyKey="k")
        assert error["code"] == "BUSY"
        why = "Retry the same call after 1 s, with the same idempotencyKey."
        assert (error["next"]["tool"], error["next"]["why"]) == (tool, why)
        assert error["next"]["args"]["idempotencyKey"] == "k"
        assert "nothing was written" in error["message"]
        assert "try again" in error["message"]
    assert "replayed" not in await agent.call(tool, **args, idempotencyKey="k")


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool not in LOCKING])
async def test_tools_that_read_or_create_do_not_wait_for_a_locked_row(
    env_with_short_lock_wait: OrgEnv, tool: str
) -> None:
    args = await valid_call(env_with_short_lock_wait.agent, tool)
    async with env_with_short_lock_wait.database.org_transaction(
        env_with_short_lock_wait.agent.org_id
    ) as tx:
        await tx.send(lock_rows("plan"), lock_rows("run"))
        await env_with_short_lock_wait.agent.call(tool, **args)


async def test_locked_plan_does_not_block_calls_on_other_plan(
    env_with_short_lock_wait: OrgEnv,
) -> None:
    locked, other = (
        await env_with_short_lock_wait.agent.plan(),
        await env_with_short_lock_wait.agent.plan(),
    )
    async with env_with_short_lock_wait.database.org_transaction(
        env_with_short_lock_wait.agent.org_id
    ) as tx:
        await tx.send(lock_rows("plan", locked["planId"]))
        await env_with_short_lock_wait.agent.take(other)
        assert (
            await env_with_short_lock_wait.agent.refused("get_next_step", planId=locked["planId"])
        )["code"] == "BUSY"


async def test_call_waiting_for_lock_reads_changes_committed_meanwhile(
    agent: AgentClient, world: OrgEnv
) -> None:
    plan = await agent.plan(1)
    # A call locks the plan before reading it only if there was a conflict with another process.
    cache = agent.dispatcher.services.shared(PlanCache)
    cache.mark_contended((agent.org_id.int, plan["planId"]))
    async with world.database.org_transaction(agent.org_id) as tx:
        await tx.send(lock_rows("plan", plan["planId"]))
        waiting = asyncio.create_task(agent.call("get_next_step", planId=plan["planId"]))
        await until_waiting(world, 1)
        await tx.commit("update plan_step set title = 'changed meanwhile'")
    assert (await waiting)["title"] == "changed meanwhile"
    async with world.database.org_transaction(agent.org_id) as tx:
        await tx.commit("update plan_step set title = null")


async def until_waiting(world: OrgEnv, number: int) -> None:
    """Wait until this many transactions are waiting for a lock."""
    counting = "select count(*) from pg_locks where not granted"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await world.database.read_org(world.agent.org_id, counting))[0][0][0] < number:  # noqa: ASYNC110 - no event tells when a transaction waits
            await asyncio.sleep(0.002)
