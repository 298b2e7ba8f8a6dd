"""Background work of servers: stalls, reminders, rendering, indexing, retention and webhooks.

One process, the leader, does the periodic work for all orgs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from waybook.app.operations.delivery import deliver_notifications
from waybook.app.operations.erasure import retain
from waybook.app.operations.indexing import index_research
from waybook.app.operations.rendering import render_documents
from waybook.app.operations.sweeps import count_work, remind_of_reviews, sweep_stalls
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.search_backend import search_backend
from waybook.app.request.services import OrgSignal, Services
from waybook.core.decision_context import Channel
from waybook.loops import repeat
from waybook.settings import Settings
from waybook.store.driver.leadership import ATTEMPT_SECONDS, DELIVERY, hold_leadership

log = logging.getLogger(__name__)

#: Seconds to wait before loading the embedding model, so that this does not slow down the start.
WARMUP_DELAY_SECONDS = 2.0
#: Seconds between two passes that delete expired data.
_RETENTION_INTERVAL_SECONDS = 3_600.0
_LEADER_CHECK_SECONDS = 10.0


async def stall_sweep_loop(services: Services, every_seconds: float) -> None:
    async def turn() -> None:
        await asyncio.sleep(every_seconds)
        if services.leadership.take_turn("sweep"):
            await sweep_all_orgs(services)
            await _in_every_org(services, remind_of_reviews)
            await count_all_orgs(services)
            services.leadership.finish_turn("sweep")

    await repeat(services, "the stall sweep", turn)


async def sweep_all_orgs(services: Services) -> int:
    services.stalls.keep_only(await services.database.list_org_ids())
    return await _in_every_org(services, sweep_stalls)


async def count_all_orgs(services: Services) -> int:
    services.work.keep_only(await services.database.list_org_ids())
    return await _in_every_org(services, count_work)


async def _in_every_org(
    services: Services, work: Callable[[RequestContext], Awaitable[int]]
) -> int:
    return await _in_orgs(services, await services.database.list_org_ids(), work)


async def _in_orgs(
    services: Services, orgs: Iterable[UUID], work: Callable[[RequestContext], Awaitable[int]]
) -> int:
    """Run a function for each org, and return the sum of its results.

    If the function fails for an org, the error is raised after all orgs were processed.
    """
    done, failure = 0, None
    for org_id in orgs:
        try:
            caller = Caller(org_id=org_id, user="waybook", channel=Channel.SWEEP)
            done += await work(RequestContext(services=services, caller=caller))
        except Exception as error:  # noqa: BLE001 - raised below
            failure = failure or error
    if failure is not None:
        raise failure
    return done


async def _work_on_request(
    services: Services,
    loop: str,
    requested: OrgSignal,
    work: Callable[[RequestContext], Awaitable[int]],
    chore: str,
    every_seconds: float,
) -> None:
    """Call `work` for each org that requested it.

    When the periodic work `chore` is due, the leader also calls `work` for all orgs.
    """

    async def turn() -> None:
        orgs = await requested.wait(every_seconds)
        while await _in_orgs(services, orgs, work):
            pass
        if services.leadership.take_turn(chore):
            while await _in_every_org(services, work):
                pass
            services.leadership.finish_turn(chore)

    await repeat(services, loop, turn)


async def render_loop(services: Services, every_seconds: float) -> None:
    requested = services.render_requested
    await _work_on_request(
        services, "rendering", requested, render_documents, "render", every_seconds
    )


async def render_all_orgs(services: Services) -> int:
    return await _in_every_org(services, render_documents)


async def render_orgs(services: Services, orgs: Iterable[UUID]) -> int:
    return await _in_orgs(services, orgs, render_documents)


async def index_loop(services: Services, every_seconds: float) -> None:
    async def warm() -> bool:
        await asyncio.sleep(WARMUP_DELAY_SECONDS)
        await search_backend(services).warm()
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
    return await _in_every_org(services, index_research)


async def retention_loop(services: Services, owner_dsn: str, settings: Settings) -> None:
    async def turn() -> None:
        if services.leadership.is_leader:
            await retain(owner_dsn, settings)
            services.loops.note_success("retention")
            await asyncio.sleep(_RETENTION_INTERVAL_SECONDS)
        else:
            await asyncio.sleep(_LEADER_CHECK_SECONDS)

    await repeat(services, "retention", turn)


async def delivery_loop(services: Services, every_seconds: float) -> None:
    requested = services.delivery_requested
    await _work_on_request(
        services, "delivering webhooks", requested, deliver_notifications, DELIVERY, every_seconds
    )


async def leadership_loop(services: Services) -> None:
    async def turn() -> None:
        has_webhook = services.webhook_sender is not None
        await hold_leadership(services.database, services.leadership, has_webhook=has_webhook)
        await asyncio.sleep(ATTEMPT_SECONDS)

    await repeat(services, "leading the background work", turn)
