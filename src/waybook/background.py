"""What goes on without being asked: stalls, rendering, the index of research, news between us.

Any number of processes may run it.
"""

import asyncio
import contextlib
import logging
from uuid import UUID

from waybook.errors import WaybookError
from waybook.record.moment import Channel
from waybook.settings import Settings
from waybook.store import post
from waybook.usecases.call import Call
from waybook.usecases.deliver_notices import deliver_notices
from waybook.usecases.exchange import Caller
from waybook.usecases.house import House
from waybook.usecases.index_research import index_research
from waybook.usecases.render_documents import render_documents
from waybook.usecases.retain import retain
from waybook.usecases.sweep_stalls import sweep_stalls

log = logging.getLogger(__name__)

#: Whoever starts has more urgent things to do than to get ready for the first search.
BEFORE_WARMING_SECONDS = 2.0
#: How long news may wait for company on their way to other processes, in seconds.
LINGER_SECONDS = 0.05
#: How long the use of a token may wait for company before it is noted, in seconds.
NOTE_USES_SECONDS = 1.0
#: How often to look for what was kept long enough.
RETAIN_SECONDS = 3_600.0
#: How long to wait before listening again, at first and at most.
RETRY_SECONDS = (0.5, 30.0)


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
    return await sweep_stalls(_call(house, org_id))


async def note_uses_for_ever(house: House) -> None:
    """Note which tokens were used, a while behind the calls, until cancelled."""
    while True:
        await house.last_used.some()
        await asyncio.sleep(NOTE_USES_SECONDS)
        await house.last_used.write(house.database)


async def render_for_ever(house: House, every_seconds: float) -> None:
    """Render whatever there is, when told of it and every now and then, until cancelled."""
    while True:
        await _told(house.to_render, every_seconds)
        try:
            while await render_once(house):
                pass
        except WaybookError as fault:
            log.warning("rendering will try again: %s", fault)


async def _told(event: asyncio.Event, at_most_seconds: float) -> None:
    """Wait until somebody says there is something to do, or long enough to look anyhow."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), at_most_seconds)
    event.clear()


async def render_once(house: House) -> int:
    """Render what waits in every org; returns how many documents that were."""
    orgs = await house.database.directory()
    return sum([await render_documents(_call(house, org_id)) for org_id in orgs])


async def index_for_ever(house: House, every_seconds: float) -> None:
    """Get ready for searches, then index whatever is not, again and again, until cancelled."""
    await asyncio.sleep(BEFORE_WARMING_SECONDS)
    await house.library.warm()
    while True:
        try:
            while await index_once(house):
                pass
        except WaybookError as fault:
            log.warning("indexing will try again: %s", fault)
        await asyncio.sleep(every_seconds)


async def index_once(house: House) -> int:
    """Index some of what waits in every org; returns how much was done."""
    orgs = await house.database.directory()
    return sum([await index_research(_call(house, org_id)) for org_id in orgs])


async def retain_for_ever(owner_dsn: str, settings: Settings) -> None:
    """Let go what was kept long enough, and make room for what comes, until cancelled."""
    while True:
        try:
            await retain(owner_dsn, settings)
        except WaybookError as fault:
            log.warning("what is old will be let go later: %s", fault)
        await asyncio.sleep(RETAIN_SECONDS)


async def deliver_for_ever(house: House, every_seconds: float) -> None:
    """Deliver whatever there is to tell, when told of it and every now and then."""
    while True:
        await _told(house.to_deliver, every_seconds)
        try:
            while await deliver_once(house):
                pass
        except WaybookError as fault:
            log.warning("webhooks will be delivered later: %s", fault)


async def deliver_once(house: House) -> int:
    """Deliver some of what is due in every org; returns how much was tried."""
    orgs = await house.database.directory()
    return sum([await deliver_notices(_call(house, org_id)) for org_id in orgs])


async def send_for_ever(house: House) -> None:
    """Tell other processes what changed here, many changes at a time, until cancelled."""
    while True:
        await house.bus.has_outgoing.wait()
        await asyncio.sleep(LINGER_SECONDS)
        try:
            await post.send(house.database, house.bus)
        except WaybookError as fault:
            log.warning("other processes will find by themselves what changed: %s", fault)


async def listen_for_ever(house: House) -> None:
    """Listen to other processes, from the first subscriber on, until cancelled.

    Behind a pooler nothing can be heard, and `look_for_ever` has to do.
    """
    await house.bus.is_wanted.wait()
    first, most = RETRY_SECONDS
    wait = first
    while True:
        begun = asyncio.get_running_loop().time()
        try:
            await post.listen(house.database, house.bus)
        except WaybookError as fault:
            log.warning("listening for news will be tried again: %s", fault)
        else:
            return
        held = asyncio.get_running_loop().time() - begun
        wait = first if held > most else min(2 * wait, most)
        await asyncio.sleep(wait)


async def look_for_ever(house: House, every_seconds: float) -> None:
    """Look for changes nobody told of, when somebody new wants to know and every now and then."""
    bus, lookout = house.bus, post.Lookout()
    await bus.is_wanted.wait()
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(bus.has_newcomers.wait(), every_seconds)
        bus.has_newcomers.clear()
        try:
            await lookout.look(house.database, bus)
        except WaybookError as fault:
            log.warning("looking for news will be tried again: %s", fault)


def _call(house: House, org_id: UUID) -> Call:
    caller = Caller(org_id=org_id, user="waybook", channel=Channel.SWEEP)
    return Call(house=house, caller=caller)
