"""What the server's own model took: noted for the org, beside what agents tell."""

import logging

from waybook.errors import WaybookError
from waybook.record.usage import Usage
from waybook.store import usage as stored
from waybook.store.ids import new_id
from waybook.usecases.call import RequestContext

log = logging.getLogger(__name__)


async def record_model_usage(ctx: RequestContext, usage: Usage) -> None:
    """Note it. What the model said is worth more than what it took: a failure is no error."""
    try:
        async with ctx.begin() as opened:
            by = ctx.caller.user
            await opened.tx.commit(
                stored.server_usage_statement(new_id(), usage, at=opened.now, by=by)
            )
    except WaybookError as error:
        log.warning("usage of the server's model not noted: %s", error)
