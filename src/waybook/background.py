"""What goes on without being asked: the stall sweep. Any number of processes may run it."""

import asyncio
import logging
from uuid import UUID

from waybook.errors import WaybookError
from waybook.record.moment import Channel
from waybook.usecases.call import Call, Caller, House
from waybook.usecases.sweep_stalls import sweep_stalls

log = logging.getLogger(__name__)


async def sweep_for_ever(house: House, every_seconds: float) -> None:
    """Look for stalls again and again, until cancelled."""
    while True:
        await asyncio.sleep(every_seconds)
        try:
            await sweep_once(house)
        except WaybookError as fault:
            log.warning("the stall sweep will try again: %s", fault)


async def sweep_once(house: House) -> int:
    """Look for stalls in every org, one after the other; returns how many plans stalled."""
    return sum([await _sweep(house, org_id) for org_id in await house.database.directory()])


async def _sweep(house: House, org_id: UUID) -> int:
    caller = Caller(org_id=org_id, user="waybook", channel=Channel.SWEEP)
    return await sweep_stalls(Call(house=house, caller=caller))
