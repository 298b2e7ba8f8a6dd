"""Stores a reminder for each overdue review, for delivery by webhook."""

from contextlib import suppress
from datetime import UTC

from waybook.app.request.locks.aggregates import LockedPlan
from waybook.app.request.outbox import link_statements, notification_statement
from waybook.app.request.request_context import RequestContext
from waybook.core.events import NotificationKind
from waybook.errors import Busy
from waybook.plan.progress import open_review, overdue_notification
from waybook.store import deliveries
from waybook.store.deliveries import OverdueReview

BATCH_SIZE = 100


async def remind_of_reviews(ctx: RequestContext) -> int:
    """Store a reminder for each overdue review that has none. Return their number."""
    patience = ctx.services.review_reminder
    if patience is None or NotificationKind.REVIEW_OVERDUE not in ctx.services.notification_events:
        return 0
    (overdue,) = await ctx.read(deliveries.overdue_statement(patience, BATCH_SIZE))
    stored = 0
    for review in overdue:
        # If a call has locked the plan, the next pass tries again.
        with suppress(Busy):
            stored += await _store_reminder(ctx, review)
    return stored


async def _store_reminder(ctx: RequestContext, overdue: OverdueReview) -> bool:
    async with LockedPlan(ctx, plan_id=overdue.plan_id) as locked:
        review = open_review(locked.plan)
        if review is None or review.id != overdue.review_id:
            return False
        notice = overdue_notification(locked.plan, review, overdue.due_at.astimezone(UTC))
        context, reminder_id = locked.write_context, overdue.reminder_id
        _, statement = notification_statement(
            ctx.services, ctx.caller, notice, context, notification_id=reminder_id
        )
        link = link_statements(ctx.services, notice, reminder_id, context)
        rows, *_ = await locked.tx.commit(statement, *link)
    ctx.services.delivery_requested.add(ctx.caller.org_id)
    return bool(rows)
