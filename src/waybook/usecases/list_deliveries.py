"""How the delivery of notices stands, for whoever runs the server."""

from waybook.errors import NotFound
from waybook.store import deliveries
from waybook.store.deliveries import Deliveries, Delivery
from waybook.store.ids import is_id
from waybook.usecases.call import RequestContext


async def list_deliveries(ctx: RequestContext, *, limit: int = 20) -> list[Delivery]:
    """The last notices, newest first."""
    (rows,) = await ctx.read(deliveries.latest_statement(limit))
    return deliveries.read_latest(rows)


async def get_delivery(ctx: RequestContext, letter_id: str) -> Delivery:
    """The notice with this id.

    Raises:
        NotFound: there is none.
    """
    if is_id(letter_id):
        (rows,) = await ctx.read(deliveries.latest_statement(1, letter_id))
        for found in deliveries.read_latest(rows):
            return found
    raise delivery_not_found()


async def count_deliveries(ctx: RequestContext) -> Deliveries:
    """How many wait, how many were given up, and since when."""
    return deliveries.read_counts(await ctx.read(deliveries.counts_statement()))


def delivery_not_found() -> NotFound:
    """The answer for a notice that is not there."""
    return NotFound("there is no notice with this id here; see: waybook webhooks list")
