"""How much waits for a person, and what time it is."""

from datetime import datetime
from typing import NamedTuple

from waybook.store import plans
from waybook.usecases.call import RequestContext


class PendingCounts(NamedTuple):
    reviews: int
    #: Runs where nothing goes on before somebody has said something of a stage.
    runs: int
    #: The database's time when we looked.
    now: datetime

    @property
    def total(self) -> int:
        return self.reviews + self.runs


async def count_pending(ctx: RequestContext) -> PendingCounts:
    """Count what waits for a person of the org."""
    ((row,),) = await ctx.read(plans.SQL["waiting"]())
    return PendingCounts(*row)
