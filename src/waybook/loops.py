"""Background loops of every process: write the call log, and exchange change events."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable

from waybook.app.request.services import Services
from waybook.errors import WaybookError
from waybook.store.calls import CallLog
from waybook.store.driver import pg_notify

log = logging.getLogger(__name__)

#: Seconds for which change events are collected into one batch.
_EVENT_BATCH_DELAY_SECONDS = 0.05
#: Seconds from the first use of an API token to the write that records all uses since then.
_TOKEN_USE_FLUSH_SECONDS = 1.0
#: First and maximum delay in seconds after a loop has failed. The delay doubles with each failure.
MIN_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0


async def repeat(
    services: Services,
    loop: str,
    turn: Callable[[], Awaitable[bool | None]],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `turn` repeatedly, until `turn` returns True or the task is canceled.

    No exception ends the loop. Each failure is logged, and the delay grows with consecutive
    failures.
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
            await pause(_backoff_seconds(failures))
        else:
            services.loops.note_success(loop)
            if is_done:
                return


def _backoff_seconds(failures: int) -> float:
    """Return the delay in seconds after this many consecutive failures, with random variation.

    >>> all(30 <= _backoff_seconds(9_999) <= MAX_BACKOFF_SECONDS for _ in "abc")
    True
    >>> 0.25 <= _backoff_seconds(1) <= 0.5
    True
    """
    longest = min(MIN_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 32), MAX_BACKOFF_SECONDS)
    return longest * random.uniform(0.5, 1)  # noqa: S311 - servers must not retry in step


async def log_calls_for_ever(services: Services, calls: CallLog) -> None:
    await repeat(services, "the log of calls", calls.write_next)


async def token_use_flush_loop(services: Services) -> None:
    """Record in batches when API tokens were last used."""

    async def turn() -> None:
        await services.last_used.wait_pending()
        await asyncio.sleep(_TOKEN_USE_FLUSH_SECONDS)
        await services.last_used.flush(services.database)

    await repeat(services, "noting the use of tokens", turn)


async def event_publish_loop(services: Services) -> None:
    """Send this process's change events to other processes in batches."""

    async def turn() -> None:
        await services.bus.has_outgoing.wait()
        await asyncio.sleep(_EVENT_BATCH_DELAY_SECONDS)
        await pg_notify.send_pending(services.database, services.bus)

    await repeat(services, "sending changes to other processes", turn)


async def event_listen_loop(services: Services) -> None:
    """Listen for change events of other processes, once there is a subscriber."""

    async def turn() -> bool:
        await pg_notify.listen(services.database, services.bus)
        return True

    await services.bus.is_wanted.wait()
    await repeat(services, "listening for changes", turn)


async def change_poll_loop(services: Services, every_seconds: float) -> None:
    """Poll the database at intervals and for each new subscriber, in case an event was lost."""
    bus, lookout = services.bus, pg_notify.ChangePoller()

    async def turn() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(bus.has_newcomers.wait(), every_seconds)
        bus.has_newcomers.clear()
        await lookout.poll(services.database, bus)

    await bus.is_wanted.wait()
    await repeat(services, "looking for changes", turn)
