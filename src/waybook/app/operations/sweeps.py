"""Periodic work for one org: detect stalled plans, remind of reviews, and count open work."""

from contextlib import suppress

from waybook.app.request.locks.locking import LockedPlan, store_notification
from waybook.app.request.request_context import RequestContext
from waybook.core.events import NotificationKind
from waybook.errors import Busy
from waybook.plan.draft import detect_stall
from waybook.plan.progress import open_review, overdue_notification
from waybook.store import deliveries
from waybook.store.driver.queries import Row, first_column
from waybook.store.plans import load, writer
from waybook.store.plans.load import LoadedPlan, StallCountRow

_MAX_CHECKED = 1_000
_MAX_COUNTED = 1_000


async def sweep_stalls(ctx: RequestContext) -> int:
    """Set inactive plans to stalled, and count stalled plans and steps for the metrics.

    Return how many plans were changed.
    """
    patience = int(ctx.services.stall_threshold.total_seconds())
    count = load.SQL["count_stalls"](patience=patience, most=_MAX_COUNTED)
    row: StallCountRow
    silent, (row,) = await ctx.write_and_read(
        writer.SQL["check_stalls"](patience=patience, most=_MAX_CHECKED), count
    )
    moved = 0
    for plan_id in first_column(silent):
        # `Busy` means that a call has locked the plan. The next pass tries again.
        with suppress(Busy):
            _, we_did = await record_stall(ctx, plan_id)
            moved += we_did
    if silent:
        ((row,),) = await ctx.read(count)
    ctx.services.stalls.put(ctx.caller.org_id, row)
    return moved


async def record_stall(ctx: RequestContext, plan_id: str) -> tuple[LoadedPlan, bool]:
    """Lock a plan and, if its agents have stopped responding, set its status to stalled.

    Return the plan, and whether its status was changed.
    """
    async with LockedPlan(ctx, plan_id=plan_id) as locked:
        decision = detect_stall(locked.plan, locked.context, ctx.services.stall_threshold)
        await locked.write(decision)
        return locked.loaded._replace(plan=decision.plan), decision.reply


_BATCH_SIZE = 100


async def remind_of_reviews(ctx: RequestContext) -> int:
    """Store a reminder for each overdue review that has none. Return how many were stored."""
    patience = ctx.services.review_reminder
    if patience is None or NotificationKind.REVIEW_OVERDUE not in ctx.services.notification_events:
        return 0
    (overdue,) = await ctx.read(
        deliveries.SQL["overdue_reviews"](patience=patience.total_seconds(), most=_BATCH_SIZE)
    )
    stored = 0
    for review in overdue:
        # `Busy` means that a call has locked the plan. The next pass tries again.
        with suppress(Busy):
            stored += await _store_reminder(ctx, review)
    return stored


async def _store_reminder(ctx: RequestContext, overdue: Row) -> bool:
    async with LockedPlan(ctx, plan_id=overdue.plan_id) as locked:
        review = open_review(locked.plan)
        if review is None or review.id != overdue.review_id:
            return False
        notice = overdue_notification(locked.plan, review, overdue.due_at)
        statements = store_notification(ctx, notice, overdue.reminder_id, locked.write_context)
        rows, *_ = await locked.tx.commit(*statements)
    ctx.services.delivery_requested.add(ctx.caller.org_id)
    return bool(rows)


async def count_work(ctx: RequestContext) -> int:
    ((row,),) = await ctx.read(deliveries.SQL["count_work"]())
    ctx.services.work.put(ctx.caller.org_id, row)
    return 1
