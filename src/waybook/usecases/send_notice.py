"""Notices somebody sends by hand: a test, or one that was given up."""

from waybook.record.notice import Notification, NotificationKind
from waybook.store import deliveries
from waybook.store.deliveries import Delivery
from waybook.store.ids import is_id
from waybook.usecases.call import RequestContext
from waybook.usecases.deliver_notices import deliver_notifications
from waybook.usecases.list_deliveries import delivery_not_found, get_delivery
from waybook.usecases.telling import notification_statement


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
