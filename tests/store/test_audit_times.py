"""Times in an audit chain never decrease, even if the servers' clocks differ."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auth_env import at
from org_env import OrgEnv, make_env
from postgres_servers import ServerDatabase
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.accounts.model import NewUser
from waybook.app.accounts.members import add_user
from waybook.app.operations.audit_verification import audited_subjects
from waybook.core.decision_context import Scope

#: Maximum difference in milliseconds between the clocks of two servers.
APART_MS = 2_000


async def work(world: OrgEnv, chance: Random, calls: int) -> None:
    """Make calls that write to the audit, each after moving the clock forward or back."""
    here = world.agent
    there = here.elsewhere()
    stage = make_stage("only", make_recipe_step("one"), make_recipe_step("two"))
    await here.call("add_dag", definition=make_definition("wide", stage))
    plan, run = await here.plan(12), await here.run("wide", "abc")
    skill = await here.call("start_skill", name="survey", sessionId="s")
    for number in range(calls):
        world.clock.advance(milliseconds=chance.randint(-APART_MS, APART_MS))
        agent = chance.choice([here, there])
        match chance.choice(["step", "step", "job", "org"]):
            case "step":
                taken = await agent.call("get_next_step", planId=plan["planId"], sessionId="s")
                if taken["status"] == "step_ready":
                    world.clock.advance(milliseconds=-chance.randint(0, APART_MS))
                    await agent.submit(taken, sessionId="s")
            case "job":
                job = await agent.call("get_next_job", runId=run["runId"])
                if job["status"] == "job_ready":
                    world.clock.advance(milliseconds=-chance.randint(0, APART_MS))
                    await agent.submit_documents(job)
            case _:
                await add_user(at(agent), NewUser(name=f"u{number}", scopes=(Scope.PLAN_READ,)))
    world.clock.advance(milliseconds=-APART_MS)
    await here.call("complete_skill", skillExecutionId=skill["skillExecutionId"])


async def check_times(world: OrgEnv) -> int:
    """Check that times never decrease in any audit chain.

    Return how many kinds of objects, such as plans and runs, have an audit chain.
    """
    subjects = await audited_subjects(at(world.agent))
    for subject in subjects:
        entries = await world.entries(world.agent.org_id, subject.id)
        times = [entry.at for entry in entries]
        assert times == sorted(times), subject
    return len({subject.kind for subject in subjects})


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.integers(1, 25))
def test_audit_times_of_a_chain_never_decrease(
    shared_place: ServerDatabase, chance: Random, calls: int
) -> None:
    async def story() -> None:
        async with make_env(shared_place, pool_size=1) as world:
            await work(world, chance, calls)
            assert await check_times(world) >= 3

    asyncio.run(story())


@pytest.mark.parametrize("gap_ms", [4, 900])
async def test_step_completion_time_is_not_before_start_if_clock_moves_back(
    world: OrgEnv, gap_ms: int
) -> None:
    plan = await world.agent.plan(1)
    taken = await world.agent.take(plan)
    world.clock.advance(milliseconds=-gap_ms)
    await world.agent.submit(taken)
    (row,) = (await world.stored(world.agent.org_id, plan["planId"]))["step"].values()
    assert row["completed_at"] == row["in_progress_since"]
