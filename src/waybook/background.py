"""Background loops: stalls, reminders, rendering, indexing, retention, webhooks, and events.

Any number of processes may run these loops concurrently. One of them, the leader, does the periodic
work for all orgs. Every process also does at once the work that its own calls caused.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from waybook.app.operations.delivery import deliver_notifications
from waybook.app.operations.erasure import retain
from waybook.app.operations.indexing import index_research
from waybook.app.operations.reminders import remind_of_reviews
from waybook.app.operations.rendering import render_documents
from waybook.app.operations.stalls import sweep_stalls
from waybook.app.operations.work import count_work
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel
from waybook.errors import WaybookError
from waybook.settings import Settings
from waybook.store.calls import CallLog
from waybook.store.driver import pg_notify
from waybook.store.driver.leadership import ATTEMPT_SECONDS, DELIVERY, hold_leadership

log = logging.getLogger(__name__)

#: Seconds before the search is warmed up, so that this does not slow down the startup.
WARMUP_DELAY_SECONDS = 2.0
#: Seconds during which change events are collected for one batch.
EVENT_BATCH_DELAY_SECONDS = 0.05
#: Seconds during which uses of tokens are collected before they are written.
TOKEN_USE_FLUSH_SECONDS = 1.0
#: Seconds between two passes that delete expired data.
RETENTION_INTERVAL_SECONDS = 3_600.0
#: Seconds after which a process checks again whether it has become the leader.
LEADER_CHECK_SECONDS = 10.0
#: Delay in seconds after a background loop's first failure, and maximum delay. Each further failure
#: in a row doubles it.
MIN_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0


async def repeat(
    services: Services,
    loop: str,
    turn: Callable[[], Awaitable[bool | None]],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `turn` repeatedly, until it returns True or the task is canceled.

    No exception ends the loop. Each failure is logged, and the delay grows with consecutive
    failures. A traceback is logged only for the first of them, and not for a `WaybookError`.
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
    """Return the delay in seconds after this many consecutive failures, with random variation.

    >>> all(MAX_BACKOFF_SECONDS / 2 <= backoff_seconds(9_999) <= MAX_BACKOFF_SECONDS for _ in "abc")
    True
    >>> 0.25 <= backoff_seconds(1) <= 0.5
    True
    """
    longest = min(MIN_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 32), MAX_BACKOFF_SECONDS)
    return longest * random.uniform(0.5, 1)  # noqa: S311 - servers must not retry in step


async def log_calls_for_ever(services: Services, calls: CallLog) -> None:
    await repeat(services, "the log of calls", calls.write_next)


async def stall_sweep_loop(services: Services, every_seconds: float) -> None:
    """Periodically check all plans for stalls and overdue reviews."""

    async def turn() -> None:
        await asyncio.sleep(every_seconds)
        if services.leadership.take_turn("sweep"):
            await sweep_all_orgs(services)
            await remind_all_orgs(services)
            await count_all_orgs(services)
            services.leadership.finish_turn("sweep")

    await repeat(services, "the stall sweep", turn)


async def sweep_all_orgs(services: Services) -> int:
    """Check the plans of every org for stalls; return how many plans were marked as stalled."""
    services.stalls.keep_only(await services.database.list_org_ids())
    return await _in_every_org(services, sweep_stalls)


async def remind_all_orgs(services: Services) -> int:
    return await _in_every_org(services, remind_of_reviews)


async def count_all_orgs(services: Services) -> int:
    """Count the open work of every org, for the metrics; return the number of orgs."""
    services.work.keep_only(await services.database.list_org_ids())
    return await _in_every_org(services, count_work)


async def _in_every_org(
    services: Services, work: Callable[[RequestContext], Awaitable[int]]
) -> int:
    """Run a function for every org, even if it fails for some; return the sum of the results.

    Raises:
        Exception: the first failure, after all orgs were processed.
    """
    return await _in_orgs(services, await services.database.list_org_ids(), work)


async def _in_orgs(
    services: Services,
    orgs: Iterable[UUID],
    work: Callable[[RequestContext], Awaitable[int]],
) -> int:
    """Run a function for these orgs, even if it fails for some; return the sum of the results.

    Raises:
        Exception: the first failure, after all orgs were processed.
    """
    done, failure = 0, None
    for org_id in orgs:
        try:
            done += await work(_call(services, org_id))
        except Exception as error:  # noqa: BLE001 - raised below
            failure = failure or error
    if failure is not None:
        raise failure
    return done


async def token_use_flush_loop(services: Services) -> None:
    """Record in batches when API tokens were last used."""

    async def turn() -> None:
        await services.last_used.wait_pending()
        await asyncio.sleep(TOKEN_USE_FLUSH_SECONDS)
        await services.last_used.flush(services.database)

    await repeat(services, "noting the use of tokens", turn)


async def render_loop(services: Services, every_seconds: float) -> None:
    """Render pending documents, when signaled and periodically."""

    async def turn() -> None:
        orgs = await services.render_requested.wait(every_seconds)
        while await render_orgs(services, orgs):
            pass
        if services.leadership.take_turn("render"):
            while await render_all_orgs(services):
                pass
            services.leadership.finish_turn("render")

    await repeat(services, "rendering", turn)


async def render_all_orgs(services: Services) -> int:
    return await _in_every_org(services, render_documents)


async def render_orgs(services: Services, orgs: Iterable[UUID]) -> int:
    return await _in_orgs(services, orgs, render_documents)


async def index_loop(services: Services, every_seconds: float) -> None:
    """Load the embedding model, then periodically index pending research."""

    async def warm() -> bool:
        await asyncio.sleep(WARMUP_DELAY_SECONDS)
        await services.search_backend.warm()
        return True

    async def turn() -> None:
        if services.leadership.take_turn("index"):
            while await index_all_orgs(services):
                pass
            services.leadership.finish_turn("index")
        await asyncio.sleep(every_seconds)

    await repeat(services, "indexing", warm)
    await repeat(services, "indexing", turn)


async def index_all_orgs(services: Services) -> int:
    """Index a batch of pending research in every org; return how much was indexed in total."""
    return await _in_every_org(services, index_research)


async def retention_loop(services: Services, owner_dsn: str, settings: Settings) -> None:
    """Periodically delete expired records and create upcoming partitions."""

    async def turn() -> None:
        if services.leadership.is_leader:
            await retain(owner_dsn, settings)
            services.loops.note_success("retention")
            await asyncio.sleep(RETENTION_INTERVAL_SECONDS)
        else:
            await asyncio.sleep(LEADER_CHECK_SECONDS)

    await repeat(services, "retention", turn)


async def delivery_loop(services: Services, every_seconds: float) -> None:
    """Deliver pending notifications, when signaled and periodically."""

    async def turn() -> None:
        orgs = await services.delivery_requested.wait(every_seconds)
        while await deliver_in_orgs(services, orgs):
            pass
        if services.leadership.take_turn(DELIVERY):
            while await deliver_all_orgs(services):
                pass
            services.leadership.finish_turn(DELIVERY)

    await repeat(services, "delivering webhooks", turn)


async def deliver_all_orgs(services: Services) -> int:
    return await _in_every_org(services, deliver_notifications)


async def deliver_in_orgs(services: Services, orgs: Iterable[UUID]) -> int:
    return await _in_orgs(services, orgs, deliver_notifications)


async def leadership_loop(services: Services) -> None:
    """Become the leader of the database as soon as no other process is the leader."""

    async def turn() -> None:
        has_webhook = services.webhook_sender is not None
        await hold_leadership(services.database, services.leadership, has_webhook=has_webhook)
        await asyncio.sleep(ATTEMPT_SECONDS)

    await repeat(services, "leading the background work", turn)


async def event_publish_loop(services: Services) -> None:
    """Send this process's change events to other processes in batches."""

    async def turn() -> None:
        await services.bus.has_outgoing.wait()
        await asyncio.sleep(EVENT_BATCH_DELAY_SECONDS)
        await pg_notify.send_pending(services.database, services.bus)

    await repeat(services, "sending changes to other processes", turn)


async def event_listen_loop(services: Services) -> None:
    """Listen for change events of other processes, once there is a subscriber.

    Through a connection pooler, no events arrive; `change_poll_loop` then finds the changes.
    """

    async def turn() -> bool:
        await pg_notify.listen(services.database, services.bus)
        return True

    await services.bus.is_wanted.wait()
    await repeat(services, "listening for changes", turn)


async def change_poll_loop(services: Services, every_seconds: float) -> None:
    """Poll for changes that no event announced, periodically and for each new subscriber."""
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
