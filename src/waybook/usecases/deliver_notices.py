"""Delivering what there is to tell. The server does this by itself.

A letter is claimed for a while, delivered with nothing held, then noted. Whoever is killed in
between leaves it to the next one who looks, and then it comes twice, under the same id.
"""

import asyncio
import logging
import random
from datetime import timedelta

from waybook.notices.letter import DeliveryOutcome, WebhookMessage, WebhookSender
from waybook.notices.schedule import DeliveryStatus, decide_retry
from waybook.store import deliveries
from waybook.usecases.call import RequestContext

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
