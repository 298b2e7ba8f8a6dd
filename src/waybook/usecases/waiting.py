"""How much waits for a person, and what time it is."""

from datetime import datetime
from typing import NamedTuple

from waybook.store import plans
from waybook.usecases.call import Call


class Waiting(NamedTuple):
    reviews: int
    #: The database's time when we looked.
    now: datetime


async def waiting(call: Call) -> Waiting:
    """Count the open reviews of the org."""
    ((row,),) = await call.read(plans.SQL["waiting"]())
    return Waiting(*row)
