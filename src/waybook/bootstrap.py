"""Start the application of a server, with its tools and background work."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from waybook.accounts.model import LOCAL_ORG
from waybook.app.operations.checks import CheckState, examined_owner
from waybook.app.registry import TOOLS
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.rate_limit import SharedTimes
from waybook.app.request.search_backend import search_backend
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.app.tools.plans.skills import installed_skills
from waybook.application import BasicApplication, cancel, open_application
from waybook.background import (
    delivery_loop,
    index_loop,
    leadership_loop,
    render_loop,
    retention_loop,
    stall_sweep_loop,
)
from waybook.settings import Settings
from waybook.store.driver.pool import WaitReport

log = logging.getLogger(__name__)

#: Seconds between two searches for stalled steps. With a stall limit below two minutes, the search
#: is more frequent, so that a stalled step is noticed after at most a quarter of the limit.
_SWEEP_SECONDS: Final = 30.0

#: All tools of the server. This line imports the modules of the tools, so that no call waits for
#: an import.
_SERVED_TOOLS: Final = tuple(TOOLS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Application(BasicApplication):
    """A running application, with the dispatcher of its tools."""

    dispatcher: ServerDispatcher


@asynccontextmanager
async def start_application(
    settings: Settings,
    *,
    sweeping: bool = True,
    waiting: WaitReport | None = None,
    find_base_url: Callable[[], str] | None = None,
    rate_limit_times: SharedTimes | None = None,
) -> AsyncIterator[Application]:
    """Start the whole application. After the block, stop it in reverse order.

    For the arguments, see `open_application`.
    """
    async with open_application(
        settings,
        serving=sweeping,
        waiting=waiting,
        check=_check_serving if sweeping else _check_search,
        find_base_url=find_base_url,
        rate_limit_times=rate_limit_times,
    ) as app:
        installed_skills(app.services)
        tasks, services = [], app.services
        if sweeping:
            seconds = min(_SWEEP_SECONDS, settings.stall_seconds / 4)
            loops = (
                leadership_loop(services),
                stall_sweep_loop(services, seconds),
                render_loop(services, seconds),
                index_loop(services, seconds),
                delivery_loop(services, seconds),
                retention_loop(services, app.owner_dsn, settings),
            )
            tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield Application(
                services=app.services,
                calls=app.calls,
                settings=settings,
                owner_dsn=app.owner_dsn,
                bearer=app.bearer,
                dispatcher=ServerDispatcher(app.services, app.calls),
            )
        finally:
            app.services.shared(LayoutWorker).close()
            await cancel(tasks)


async def _check_serving(app: BasicApplication) -> None:
    if app.settings.database_url:
        result = await examined_owner(app.owner_dsn)
        if result.state is not CheckState.OK:
            log.warning("the owner of the database: %s; %s", result.message, result.remedy)
    await _check_search(app)


async def _check_search(app: BasicApplication) -> None:
    await search_backend(app.services).check(app.services.database, LOCAL_ORG)


def freeze_gc() -> None:
    """Exclude all present objects from garbage collection. Call this after startup."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
