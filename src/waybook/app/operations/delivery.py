"""Delivers notifications to the webhook.

If a process is killed during a delivery, another process delivers the message again, with the same
id.
"""

import asyncio
import logging
import random
from datetime import timedelta

from waybook.app.queries.usage import delivery_not_found, get_delivery
from waybook.app.request.locks.locking import OpenTransaction, Written, store_notification
from waybook.app.request.request_context import RequestContext
from waybook.core.events import Notification, NotificationKind
from waybook.notifications.delivery import (
    LINKED_ACTIONS,
    MAX_DELIVERY_TIME,
    DeliveryOutcome,
    DeliveryStatus,
    WebhookMessage,
    WebhookSender,
    decide_retry,
)
from waybook.store import deliveries, links
from waybook.store.driver.queries import Row, is_uuid, new_uuid

log = logging.getLogger(__name__)

MAX_CONCURRENT = 4
#: Time for which a process reserves a message. No delivery takes longer.
LEASE = timedelta(seconds=60)


async def deliver_notifications(ctx: RequestContext) -> int:
    """Try to deliver a few due messages of this org. Return how many were tried."""
    sender = ctx.services.webhook_sender
    if sender is None:
        return 0
    (messages,) = await ctx.write_and_read(
        deliveries.SQL["claim"](most=MAX_CONCURRENT, lease=LEASE.total_seconds())
    )
    await asyncio.gather(*(_deliver(ctx, sender, message) for message in messages))
    return len(messages)


async def _deliver(
    ctx: RequestContext, sender: WebhookSender, message: WebhookMessage
) -> DeliveryOutcome:
    outcome = await sender.deliver(await _with_actions(ctx, message))
    status, due_at = decide_retry(message, outcome, random.random())  # noqa: S311 - not a secret
    if status is DeliveryStatus.GIVEN_UP:
        log_format = "webhook %s (%s) is given up after %d attempts: %s"
        log.error(log_format, message.id, message.event, message.attempt, outcome.error)
    elif outcome.error:
        log.warning("webhook %s (%s) is tried again: %s", message.id, message.event, outcome.error)
    await ctx.write_and_read(*deliveries.outcome_statements(message, outcome, status, due_at))
    return outcome


async def _with_actions(ctx: RequestContext, message: WebhookMessage) -> WebhookMessage:
    """Add action links to a message about a review or stage.

    The stored message has no links, because their secrets are not stored.
    """
    configured = ctx.services.action_links
    if configured is None or message.event not in LINKED_ACTIONS:
        return message
    (usable,) = await ctx.read(links.SQL["is_link_usable"](id=message.id))
    if not usable:
        return message
    kind = NotificationKind(message.event)
    org_id = ctx.caller.org_id if await ctx.services.database.is_cluster() else None
    actions = configured.urls(kind, message.id, ctx.services.base_url, org_id)
    return message._replace(data={**message.data, "actions": actions})


async def send_test_notification(ctx: RequestContext) -> Row:
    message_id, test = new_uuid(), Notification(NotificationKind.TEST, "", {})
    async with OpenTransaction(ctx) as opened:
        context = opened.write_context
        statements = store_notification(ctx, test, message_id, context)
        await opened.write(Written(statements))
    return await _sent(ctx, message_id)


async def retry_delivery(ctx: RequestContext, message_id: str) -> Row:
    message_id = message_id.lower()
    if is_uuid(message_id):
        patience = MAX_DELIVERY_TIME.total_seconds()
        statement = deliveries.SQL["retry_delivery"](id=message_id, patience=patience)
        (rows,) = await ctx.write_and_read(statement)
        if rows:
            return await _sent(ctx, message_id)
    raise delivery_not_found()


async def _sent(ctx: RequestContext, message_id: str) -> Row:
    while not (delivery := await get_delivery(ctx, message_id)).attempt:
        if not await deliver_notifications(ctx):
            return delivery
    return delivery
