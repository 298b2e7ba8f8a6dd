"""The stall sweep of one org: find silent plans, and note their stalls under the lock."""

from contextlib import suppress

from waybook.errors import Busy
from waybook.store import plans
from waybook.usecases.call import Call
from waybook.usecases.get_plan_status import note_stall

MOST_AT_ONCE = 100


async def sweep_stalls(call: Call) -> int:
    """Move every silent plan to stalled; returns how many this sweep moved."""
    patience = int(call.house.patience.total_seconds())
    (silent, *_) = await call.read(plans.SQL["silent_plans"](patience=patience, most=MOST_AT_ONCE))
    moved = 0
    for (plan_id,) in silent:
        with suppress(Busy):  # somebody works on it right now; the next sweep looks again
            _, we_did = await note_stall(call, plan_id)
            moved += we_did
    return moved
