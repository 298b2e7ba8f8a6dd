"""Finds inactive plans of one org, and sets them to stalled."""

from contextlib import suppress

from waybook.app.request.locks.aggregates import LockedPlan
from waybook.app.request.request_context import RequestContext
from waybook.errors import Busy
from waybook.plan.settle import detect_stall
from waybook.store.driver.queries import first_column
from waybook.store.plans import load, writer
from waybook.store.plans.load import LoadedPlan
from waybook.store.plans.rows import StallCountRow

MAX_CHECKED = 1_000
MAX_COUNTED = 1_000


async def sweep_stalls(ctx: RequestContext) -> int:
    """Set inactive plans to stalled. Return how many were changed.

    The numbers of stalled plans and steps are kept for the metrics.
    """
    patience = int(ctx.services.stall_threshold.total_seconds())
    count = load.SQL["count_stalls"](patience=patience, most=MAX_COUNTED)
    row: StallCountRow
    silent, (row,) = await ctx.write_and_read(
        writer.check_stalls_statement(patience, MAX_CHECKED), count
    )
    moved = 0
    for plan_id in first_column(silent):
        # If a call has locked the plan, the next pass tries again.
        with suppress(Busy):
            _, we_did = await record_stall(ctx, plan_id)
            moved += we_did
    if silent:
        ((row,),) = await ctx.read(count)
    ctx.services.stalls.put(ctx.caller.org_id, row)
    return moved


async def record_stall(ctx: RequestContext, plan_id: str) -> tuple[LoadedPlan, bool]:
    """Lock an inactive plan and set it to stalled, unless it already is.

    Return the plan, and whether its status was changed.
    """
    async with LockedPlan(ctx, plan_id=plan_id) as locked:
        decision = detect_stall(locked.plan, locked.decision_context, ctx.services.stall_threshold)
        await locked.write(decision)
        return locked.loaded._replace(plan=decision.plan), decision.reply
