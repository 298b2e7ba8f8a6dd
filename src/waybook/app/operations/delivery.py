"""Delivering what there is to tell. The server does this by itself.

A letter is claimed for a while, delivered with nothing held, then noted. Whoever is killed in
between leaves it to the next one who looks, and then it comes twice, under the same id.

Notices somebody sends by hand: a test, or one that was given up.
"""

import asyncio
import logging
import random
from datetime import timedelta

from waybook.app.queries.usage import delivery_not_found, get_delivery
from waybook.app.request.outbox import notification_statement
from waybook.app.request.request_context import RequestContext
from waybook.core.events import Notification, NotificationKind
from waybook.notifications.message import (
    DeliveryOutcome,
    DeliveryStatus,
    WebhookMessage,
    WebhookSender,
    decide_retry,
)
from waybook.store import deliveries
from waybook.store.deliveries import Delivery
from waybook.store.driver.ids import is_id

log = logging.getLogger(__name__)

#: Letters on their way at the same time, of one process.
MAX_CONCURRENT = 4
#: How long a letter is its bearer's: longer than an attempt can take.
LEASE = timedelta(seconds=60)


async def deliver_notifications(ctx: RequestContext) -> int:
    """Try what is due in this org, a few at a time; returns how many were tried."""
    sender = ctx.services.webhook_sender
    if sender is None:
        return 0
    (rows,) = await ctx.write_and_read(deliveries.claim_statement(MAX_CONCURRENT, LEASE))
    letters = deliveries.read_claimed(rows)
    await asyncio.gather(*(_deliver(ctx, sender, letter) for letter in letters))
    return len(letters)


async def _deliver(
    ctx: RequestContext, sender: WebhookSender, letter: WebhookMessage
) -> DeliveryOutcome:
    outcome = await sender.deliver(letter)
    found = decide_retry(letter, outcome, random.random())  # noqa: S311 - for spreading, not for hiding
    if found.status is DeliveryStatus.GIVEN_UP:
        said = "webhook %s (%s) is given up after %d attempts: %s"
        log.error(said, letter.id, letter.event, letter.attempt, outcome.error)
    elif outcome.error:
        log.warning("webhook %s (%s) is tried again: %s", letter.id, letter.event, outcome.error)
    await ctx.write_and_read(*deliveries.outcome_statements(letter, outcome, found))
    return outcome


async def send_test_notification(ctx: RequestContext) -> Delivery:
    """Tell whoever is configured that this is a test; returns what came of it."""
    async with ctx.begin() as opened:
        letter_id, statement = notification_statement(
            ctx.services,
            ctx.caller,
            Notification(NotificationKind.TEST, "", {}),
            opened.write_context(),
        )
        await opened.tx.commit(statement)
    return await _sent(ctx, letter_id)


async def retry_delivery(ctx: RequestContext, letter_id: str) -> Delivery:
    """Deliver a notice from the beginning, under its own id; returns what came of it.

    Raises:
        NotFound: there is none with this id.
    """
    letter_id = letter_id.lower()
    found = (
        await ctx.write_and_read(deliveries.retry_statement(letter_id))
        if is_id(letter_id)
        else [[]]
    )
    if not found[0]:
        raise delivery_not_found()
    return await _sent(ctx, letter_id)


async def _sent(ctx: RequestContext, letter_id: str) -> Delivery:
    """Deliver what is due until this one has been tried."""
    while not (found := await get_delivery(ctx, letter_id)).attempt:
        if not await deliver_notifications(ctx):
            return found
    return found
