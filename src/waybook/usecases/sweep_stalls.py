"""The stall sweep of one org: find silent plans, and note their stalls under the lock."""

from contextlib import suppress

from waybook.errors import Busy
from waybook.store import plans
from waybook.usecases.call import RequestContext
from waybook.usecases.get_plan_status import record_stall

BATCH_SIZE = 100


async def sweep_stalls(ctx: RequestContext) -> int:
    """Move every silent plan to stalled; returns how many this sweep moved."""
    patience = int(ctx.services.stall_threshold.total_seconds())
    (silent, *_) = await ctx.read(plans.SQL["inactive_plans"](patience=patience, most=BATCH_SIZE))
    moved = 0
    for (plan_id,) in silent:
        with suppress(Busy):  # somebody works on it right now; the next sweep looks again
            _, we_did = await record_stall(ctx, plan_id)
            moved += we_did
    return moved
