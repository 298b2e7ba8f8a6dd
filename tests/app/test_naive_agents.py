"""Agents that follow only the suggested calls, and die at random, still end every plan."""

import os

import pytest

from naive_agents import Outcome, run_plan
from org_env import OrgEnv
from waybook.core.decision_context import ReviewPolicy

#: Number of random plans; `make naive-agents` runs a thousand.
PLANS = int(os.environ.get("WAYBOOK_NAIVE_PLANS", "25"))


async def test_plans_end_if_agents_follow_suggested_calls_and_die_randomly(
    world: OrgEnv, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome()
    await world.set_policy(ReviewPolicy.HUMAN)
    for seed in range(PLANS):
        await run_plan(world, seed, outcome)
    with capsys.disabled():
        print(  # noqa: T201 - the figures are the result
            f"\n{outcome.plans} plans, {outcome.calls} calls, {outcome.deaths} deaths, "
            f"{outcome.decisions} reviews decided, {outcome.self_approvals} self-approvals, "
            f"{len(outcome.endless)} endless; {dict(outcome.statuses)}"
        )
    assert outcome.endless == []
    assert outcome.self_approvals == 0
    assert set(outcome.statuses) == {"completed", "failed"}
    assert outcome.decisions > 0
