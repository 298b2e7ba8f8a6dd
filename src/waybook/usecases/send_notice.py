"""Notices somebody sends by hand: a test, or one that was given up."""

from waybook.record.notice import Notice, Occasion
from waybook.store import deliveries
from waybook.store.deliveries import Delivery
from waybook.store.ids import is_id
from waybook.usecases.call import Call
from waybook.usecases.deliver_notices import deliver_notices
from waybook.usecases.list_deliveries import delivery_not_found, one_delivery
from waybook.usecases.telling import statement_of


async def send_test_notice(call: Call) -> Delivery:
    """Tell whoever is configured that this is a test; returns what came of it."""
    async with call.open() as opened:
        letter_id, statement = statement_of(
            call.house, call.caller, Notice(Occasion.TEST, "", {}), opened.hand()
        )
        await opened.tx.commit(statement)
    return await _sent(call, letter_id)


async def retry_delivery(call: Call, letter_id: str) -> Delivery:
    """Deliver a notice from the beginning, under its own id; returns what came of it.

    Raises:
        NotFound: there is none with this id.
    """
    letter_id = letter_id.lower()
    found = await call.touch(deliveries.again_statement(letter_id)) if is_id(letter_id) else [[]]
    if not found[0]:
        raise delivery_not_found()
    return await _sent(call, letter_id)


async def _sent(call: Call, letter_id: str) -> Delivery:
    """Deliver what is due until this one has been tried."""
    while not (found := await one_delivery(call, letter_id)).attempt:
        if not await deliver_notices(call):
            return found
    return found
