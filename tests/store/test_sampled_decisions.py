"""Decisions sampled from the model check of plans, executed on PostgreSQL."""

import os
import random

import pytest

from org_env import OrgEnv
from plan_shapes import SHAPES, Shape
from plan_state_space import walk
from plan_walk_on_database import execute_sample

#: Number of decisions to execute for all plans in `SHAPES`; `make harness NAME=model-db` sets
#: 10,000.
DECISIONS = int(os.environ.get("WAYBOOK_SAMPLED_DECISIONS", "100"))
#: Maximum number of states to explore for each plan in `SHAPES`. Decisions are executed in only a
#: few of them.
MAX_STATES = max(300, DECISIONS * 3 // 10)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
async def test_rows_stored_by_sampled_decisions_match_rules_and_audit(
    world: OrgEnv, shape: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    walked = walk(shape, most=MAX_STATES, is_checked=False)
    rng = random.Random(f"{shape.name} {DECISIONS}")  # noqa: S311 - a repeatable sample
    wanted = DECISIONS // len(SHAPES)
    executed = await execute_sample(world.database, world.agent.org_id, walked, wanted, rng)
    with capsys.disabled():
        print(  # noqa: T201 - the size of the sample is part of its answer
            f"\n{shape.name}: {executed} decisions from {len(walked.states)} states executed "
            "on PostgreSQL, rows = replayed audit = decided plan"
        )
    assert executed >= wanted
