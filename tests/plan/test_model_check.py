"""Model check of the plan rules: every call is tried in every state within limits.

With `WAYBOOK_WALK=wide`, the limits are higher, and the check takes some minutes more.
"""

import os

import pytest

from plan_copies import check_copies
from plan_shapes import (
    BRANCHING,
    DEPENDING,
    MODIFYING,
    ORDERED,
    REPEATING,
    SHAPES,
    WIDE_SHAPES,
    Shape,
)
from plan_state_space import plan_of, walk
from waybook.plan.model import CLOSED_PLAN, PlanStatus

WALKED = WIDE_SHAPES if os.environ.get("WAYBOOK_WALK") == "wide" else SHAPES

#: Error codes that occur during the model check. Any other exception ends the check.
MET = {
    *("INVALID_STEP_REFERENCE", "INVALID_TRANSITION", "NOT_AWAITING_REVIEW", "NOT_MODIFIABLE"),
    *("PLAN_TERMINAL", "STALE_ATTEMPT", "STALE_PLAN"),
}
MET_BY_SHAPE = {DEPENDING.name: MET | {"FORBIDDEN"}}
#: Minimum number of states of each plan, so that a check which ends too early fails.
MIN_STATES = {
    BRANCHING.name: 10_000,
    MODIFYING.name: 1_500,
    REPEATING.name: 4_000,
    DEPENDING.name: 5_000,
    ORDERED.name: 1_000,
}


@pytest.mark.parametrize("shape", WALKED, ids=lambda shape: shape.name)
def test_every_reachable_plan_state_is_valid_and_can_be_closed(
    shape: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    walked = walk(shape)
    ends = sum(state.status in CLOSED_PLAN for state in walked.states)
    with capsys.disabled():
        print(  # noqa: T201 - the size of the walk is part of its answer
            f"\n{shape.name}: {len(walked.states)} states ({ends} of them ends), {walked.edges} "
            f"decisions, {walked.refusals} refusals, replayed audit = state in each"
        )
    assert walked.dead_ends() == []
    assert check_copies(map(plan_of, walked.states)) > len(walked.states)
    assert set(walked.errors) == MET_BY_SHAPE.get(shape.name, MET)
    assert {state.status for state in walked.states} == set(PlanStatus)
    assert len(walked.states) > MIN_STATES[shape.name]
