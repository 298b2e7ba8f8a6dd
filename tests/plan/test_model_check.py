"""Model check of the plan rules: every call in every reachable state within the bounds.

`WAYBOOK_WALK=wide` also permutes the steps, which takes some minutes more.
"""

import os

import pytest

from plan_copies import check_copies
from plan_state_space import Bounds, walk
from waybook.plan.states import CLOSED_PLAN, PlanStatus

BOUNDS = Bounds(orders=os.environ.get("WAYBOOK_WALK") == "wide")

#: Error codes that calls are expected to return during the walk through all states. Any other
#: exception ends the walk.
MET = {
    "INVALID_STEP_REFERENCE",
    "INVALID_TRANSITION",
    "NOT_AWAITING_REVIEW",
    "NOT_MODIFIABLE",
    "PLAN_TERMINAL",
    "STALE_ATTEMPT",
    "STALE_PLAN",
}


def test_every_reachable_plan_state_is_valid_and_can_be_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    walked = walk(BOUNDS)
    ends = sum(plan.status in CLOSED_PLAN for plan in walked.plans)
    with capsys.disabled():
        print(  # noqa: T201 - the size of the walk is part of its answer
            f"\n{BOUNDS}: {len(walked.plans)} states ({ends} of them ends), "
            f"{walked.edges} decisions, {walked.refusals} refusals, all as promised"
        )
    assert walked.dead_ends() == []
    assert check_copies(walked.plans) > len(walked.plans)
    assert set(walked.errors) == MET
    assert {plan.status for plan in walked.plans} == set(PlanStatus)
    assert len(walked.plans) > 15_000
