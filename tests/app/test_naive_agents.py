"""Agents that only make suggested calls and may stop at any time: every plan and run ends."""

import asyncio
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dag_builders import dags, models
from naive_agents import Outcome, run_plan, run_workflow
from org_env import OrgEnv, make_env
from postgres_servers import ServerDatabase
from waybook.core.decision_context import ReviewPolicy
from waybook.dag.model import Dag

#: Numbers of random plans and runs. `make harness NAME=naive-agents` sets higher numbers.
PLANS = int(os.environ.get("WAYBOOK_NAIVE_PLANS", "25"))
RUNS = int(os.environ.get("WAYBOOK_NAIVE_RUNS", "6"))
#: Maximum number of calls that one agent makes in sequence without a change of the plan or run.
MAX_LOOP = 3


def check(what: str, outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{what}: {outcome}")  # noqa: T201 - the figures are the result
    assert outcome.endless == []
    assert outcome.longest_loop <= MAX_LOOP
    assert outcome.decisions > 0


async def test_every_plan_ends_if_agents_stop_at_random_points(
    world: OrgEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome()
    await world.set_policy(ReviewPolicy.HUMAN)
    for seed in range(PLANS):
        await run_plan(world, seed, outcome)
    check("plans", outcome, capsys)
    assert outcome.seen["submit_user_decision"] == 0
    assert set(outcome.statuses) == {"completed", "failed"}


def test_every_run_ends_if_agents_stop_at_random_points(
    shared_place: ServerDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome()

    async def work_on(dag: Dag, names: list[str], seed: int) -> None:
        async with make_env(shared_place, pool_size=2) as world:
            await world.set_policy(ReviewPolicy.HUMAN)
            await run_workflow(world, dag, names, seed, outcome)

    @settings(max_examples=RUNS)
    @given(dags(max_stages=3, max_steps=4), models(most=3), st.integers(0, 2**32))
    def work_on_any(dag: Dag, names: list[str], seed: int) -> None:
        asyncio.run(work_on(dag, names, seed))

    work_on_any()
    check("runs", outcome, capsys)
    assert outcome.seen["submit_stage_feedback"] == outcome.seen["retry_failed"] == 0
    assert set(outcome.statuses) <= {"completed", "canceled"}
