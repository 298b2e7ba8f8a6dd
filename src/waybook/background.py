"""What goes on without being asked: stalls, rendering, the index of research, news between us.

Any number of processes may run it.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from uuid import UUID

from waybook.app.operations.delivery import deliver_notifications
from waybook.app.operations.erasure import retain
from waybook.app.operations.indexing import index_research
from waybook.app.operations.rendering import render_documents
from waybook.app.operations.stalls import sweep_stalls
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel
from waybook.errors import WaybookError
from waybook.settings import Settings
from waybook.store.calls import CallLog
from waybook.store.driver import pg_notify

log = logging.getLogger(__name__)

#: Whoever starts has more urgent things to do than to get ready for the first search.
WARMUP_DELAY_SECONDS = 2.0
#: How long news may wait for company on their way to other processes, in seconds.
EVENT_BATCH_DELAY_SECONDS = 0.05
#: How long the use of a token may wait for company before it is noted, in seconds.
TOKEN_USE_FLUSH_SECONDS = 1.0
#: How often to look for what was kept long enough.
RETENTION_INTERVAL_SECONDS = 3_600.0
#: Wait after the first failure in a row; it doubles with each further one, up to the maximum.
MIN_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0


async def repeat(
    services: Services,
    loop: str,
    turn: Callable[[], Awaitable[bool | None]],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run `turn` again and again, until it returns True or the task is cancelled.

    No error ends the loop, of any kind: a failure is logged, the first one in a row with its
    traceback unless it is ours, and the next turn waits longer after each further failure.
    """
    while True:
        begun = asyncio.get_running_loop().time()
        try:
            is_done = await turn()
        except Exception as error:
            if asyncio.get_running_loop().time() - begun > MAX_BACKOFF_SECONDS:
                services.loops.note_success(loop)
            failures = services.loops.note_failure(loop, error)
            unexpected = failures == 1 and not isinstance(error, WaybookError)
            log.warning("%s will be tried again: %s", loop, error, exc_info=unexpected)
            await pause(backoff_seconds(failures))
        else:
            services.loops.note_success(loop)
            if is_done:
                return


def backoff_seconds(failures: int) -> float:
    """Return how long to wait after so many failures in a row, with jitter.

    >>> all(MAX_BACKOFF_SECONDS / 2 <= backoff_seconds(9_999) <= MAX_BACKOFF_SECONDS for _ in "abc")
    True
    >>> 0.25 <= backoff_seconds(1) <= 0.5
    True
    """
    longest = min(MIN_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 32), MAX_BACKOFF_SECONDS)
    return longest * random.uniform(0.5, 1)  # noqa: S311 - servers must not retry in step


async def log_calls_for_ever(services: Services, calls: CallLog) -> None:
    """Write the log of calls, until cancelled."""
    await repeat(services, "the log of calls", calls.write_next)


async def stall_sweep_loop(services: Services, every_seconds: float) -> None:
    """Look for stalls again and again, until cancelled."""

    async def turn() -> None:
        await asyncio.sleep(every_seconds)
        await sweep_all_orgs(services)

    await repeat(services, "the stall sweep", turn)


async def sweep_all_orgs(services: Services) -> int:
    """Look for stalls in every org, one after the other; returns how many plans stalled."""
    return await _in_every_org(services, sweep_stalls)


async def _in_every_org(
    services: Services, work: Callable[[RequestContext], Awaitable[int]]
) -> int:
    """Return the sum of some work over all orgs; an org that fails does not stop the others.

    Raises:
        Exception: the first failure, once every org had its turn.
    """
    done, failure = 0, None
    for org_id in await services.database.list_org_ids():
        try:
            done += await work(_call(services, org_id))
        except Exception as error:  # noqa: BLE001 - raised below
            failure = failure or error
    if failure is not None:
        raise failure
    return done


async def token_use_flush_loop(services: Services) -> None:
    """Note which tokens were used, a while behind the calls, until cancelled."""

    async def turn() -> None:
        await services.last_used.wait_pending()
        await asyncio.sleep(TOKEN_USE_FLUSH_SECONDS)
        await services.last_used.flush(services.database)

    await repeat(services, "noting the use of tokens", turn)


async def render_loop(services: Services, every_seconds: float) -> None:
    """Render whatever there is, when told of it and every now and then, until cancelled."""

    async def turn() -> None:
        await _told(services.render_requested, every_seconds)
        while await render_all_orgs(services):
            pass

    await repeat(services, "rendering", turn)


async def _told(event: asyncio.Event, at_most_seconds: float) -> None:
    """Wait until somebody says there is something to do, or long enough to look anyhow."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), at_most_seconds)
    event.clear()


async def render_all_orgs(services: Services) -> int:
    """Render what waits in every org; returns how many documents that were."""
    return await _in_every_org(services, render_documents)


async def index_loop(services: Services, every_seconds: float) -> None:
    """Get ready for searches, then index whatever is not, again and again, until cancelled."""

    async def warm() -> bool:
        await asyncio.sleep(WARMUP_DELAY_SECONDS)
        await services.search_backend.warm()
        return True

    async def turn() -> None:
        while await index_all_orgs(services):
            pass
        await asyncio.sleep(every_seconds)

    await repeat(services, "indexing", warm)
    await repeat(services, "indexing", turn)


async def index_all_orgs(services: Services) -> int:
    """Index some of what waits in every org; returns how much was done."""
    return await _in_every_org(services, index_research)


async def retention_loop(services: Services, owner_dsn: str, settings: Settings) -> None:
    """Let go what was kept long enough, and make room for what comes, until cancelled."""

    async def turn() -> None:
        await retain(owner_dsn, settings)
        services.loops.note_success("retention")
        await asyncio.sleep(RETENTION_INTERVAL_SECONDS)

    await repeat(services, "retention", turn)


async def delivery_loop(services: Services, every_seconds: float) -> None:
    """Deliver whatever there is to tell, when told of it and every now and then."""

    async def turn() -> None:
        await _told(services.delivery_requested, every_seconds)
        while await deliver_all_orgs(services):
            pass

    await repeat(services, "delivering webhooks", turn)


async def deliver_all_orgs(services: Services) -> int:
    """Deliver some of what is due in every org; returns how much was tried."""
    return await _in_every_org(services, deliver_notifications)


async def event_publish_loop(services: Services) -> None:
    """Tell other processes what changed here, many changes at a time, until cancelled."""

    async def turn() -> None:
        await services.bus.has_outgoing.wait()
        await asyncio.sleep(EVENT_BATCH_DELAY_SECONDS)
        await pg_notify.send_pending(services.database, services.bus)

    await repeat(services, "sending changes to other processes", turn)


async def event_listen_loop(services: Services) -> None:
    """Listen to other processes, from the first subscriber on, until cancelled.

    Behind a pooler nothing can be heard, and `change_poll_loop` has to do.
    """

    async def turn() -> bool:
        await pg_notify.listen(services.database, services.bus)
        return True

    await services.bus.is_wanted.wait()
    await repeat(services, "listening for changes", turn)


async def change_poll_loop(services: Services, every_seconds: float) -> None:
    """Look for changes nobody told of, when somebody new wants to know and every now and then."""
    bus, lookout = services.bus, pg_notify.ChangePoller()

    async def turn() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(bus.has_newcomers.wait(), every_seconds)
        bus.has_newcomers.clear()
        await lookout.poll(services.database, bus)

    await bus.is_wanted.wait()
    await repeat(services, "looking for changes", turn)


def _call(services: Services, org_id: UUID) -> RequestContext:
    caller = Caller(org_id=org_id, user="waybook", channel=Channel.SWEEP)
    return RequestContext(services=services, caller=caller)
