"""What the server's own model took: noted for the org, beside what agents tell."""

import logging

from waybook.errors import WaybookError
from waybook.record.usage import Usage
from waybook.store import usage as stored
from waybook.store.ids import new_id
from waybook.usecases.call import Call

log = logging.getLogger(__name__)


async def note_usage(call: Call, usage: Usage) -> None:
    """Note it. What the model said is worth more than what it took: a failure is no error."""
    try:
        async with call.open() as opened:
            by = call.caller.user
            await opened.tx.commit(stored.own_statement(new_id(), usage, at=opened.now, by=by))
    except WaybookError as fault:
        log.warning("usage of the server's model not noted: %s", fault)
