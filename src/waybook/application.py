"""Start the part of the application that commands need: database, services and loops.

This module imports no tools, so that a command starts fast. `bootstrap` adds the tools.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from waybook.accounts.model import LOCAL_ORG, validate_slug
from waybook.app.accounts.authentication import authenticate_token
from waybook.app.request.caller import Caller
from waybook.app.request.rate_limit import SharedTimes, TokenBuckets
from waybook.app.request.services import Services
from waybook.core.decision_context import ALL_SCOPES, Channel, Scope
from waybook.embedded_postgres.supervisor import attach
from waybook.errors import Forbidden, Misconfigured, WaybookError
from waybook.integrations.config import action_links_from_settings, webhook_from_settings
from waybook.integrations.factory import (
    open_embedder,
    open_model,
    open_tracing,
    open_webhook_sender,
)
from waybook.loops import (
    change_poll_loop,
    event_listen_loop,
    event_publish_loop,
    log_calls_for_ever,
    token_use_flush_loop,
)
from waybook.page_address import current_base_url
from waybook.research.embedding import Backend
from waybook.settings import Settings
from waybook.store.accounts.accounts import add_org
from waybook.store.calls import CallLog
from waybook.store.driver import pg_notify
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool, WaitReport, retry_start
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import (
    APP_ROLE,
    check_schema,
    check_serving_role,
    distribute,
    list_pending,
    migrate,
)

#: Seconds between two polls of the database for changes, while this process has subscribers.
_CHANGE_POLL_SECONDS = 3.0
#: An org may make at once as many calls as its rate limit allows in this many seconds.
_BURST_SECONDS = 2
#: Maximum seconds for which a starting server waits for the database.
START_SECONDS = 60
#: Maximum seconds for writing the remaining logged calls at shutdown.
_FLUSH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicApplication:
    """A running application, without its tools."""

    services: Services
    calls: CallLog
    settings: Settings
    owner_dsn: str = ""
    #: Owner of the configured API token, if there is a token.
    bearer: Caller | None = None

    def caller(self, channel: Channel) -> Caller:
        """Return the caller on this channel: the configured token's owner, or the local user."""
        if self.bearer is not None:
            return replace(self.bearer, channel=channel)
        return Caller(
            org_id=LOCAL_ORG,
            user=self.settings.user,
            channel=channel,
            # Without sign-in, only a caller on the dashboard is assumed to be a person and may
            # review.
            scopes=ALL_SCOPES if channel is Channel.DASHBOARD else ALL_SCOPES - {Scope.REVIEW},
        )

    async def caller_resolver(self, channel: Channel) -> Caller:
        """Check the configured token again, and return the caller of a long-lived connection."""
        token = self.settings.token
        if token is None:
            return self.caller(channel)
        return await authenticate_token(self.services, token, channel)

    async def create_org(self, slug: str) -> UUID:
        """Create an org, using the database role that owns the tables."""
        if self.bearer is not None:
            raise Forbidden("only the server operator can create an org, without a token")
        org_id = UUID(new_uuid())
        await asyncio.to_thread(add_org, self.owner_dsn, org_id, validate_slug(slug))
        return org_id


_StartCheck: TypeAlias = Callable[[BasicApplication], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseServer:
    """Connection strings for Waybook and for migrations, and the database role of Waybook."""

    app_dsn: str
    owner_dsn: str
    role: str | None
    #: Whether a migration may create the table of vectors, which needs pgvector.
    vectors: bool = True


@asynccontextmanager
async def open_application(
    settings: Settings,
    *,
    serving: bool = False,
    waiting: WaitReport | None = None,
    check: _StartCheck | None = None,
    find_base_url: Callable[[], str] | None = None,
    rate_limit_times: SharedTimes | None = None,
) -> AsyncIterator[BasicApplication]:
    """Start what every command needs. After the block, stop it in reverse order.

    If `waiting` is set, retry while the database is unreachable, and report each wait to `waiting`.
    `check` is called when all services have started. `find_base_url` returns the base URL of links.
    """
    async with database_server(settings) as postgres, contextlib.AsyncExitStack() as stack:

        async def start() -> BasicApplication:
            running = _run(
                settings,
                postgres,
                serving=serving,
                find_base_url=find_base_url,
                rate_limit_times=rate_limit_times,
                check=check,
            )
            return await stack.enter_async_context(running)

        yield await (start() if waiting is None else retry_start(start, START_SECONDS, waiting))


@asynccontextmanager
async def _run(
    settings: Settings,
    postgres: DatabaseServer,
    *,
    serving: bool,
    find_base_url: Callable[[], str] | None,
    rate_limit_times: SharedTimes | None,
    check: _StartCheck | None,
) -> AsyncIterator[BasicApplication]:
    await asyncio.to_thread(_prepare_schema, postgres, settings)
    webhook = webhook_from_settings(settings)
    async with (
        open_database(postgres, settings, serving=serving) as database,
        open_embedder(settings) as embedder,
        open_model(settings) as model,
        open_webhook_sender(webhook) as sender,
        open_tracing(os.environ if serving else {}),
    ):
        if sender and serving:
            await sender.warm()
        rate = settings.effective_calls_per_second
        services = Services(
            database=database,
            settings=settings,
            stall_threshold=timedelta(seconds=settings.stall_seconds),
            find_base_url=find_base_url or partial(current_base_url, settings),
            lease=timedelta(seconds=settings.lease_seconds),
            embedder=embedder,
            model=model,
            notification_events=webhook.events if webhook else frozenset(),
            webhook_sender=sender,
            action_links=action_links_from_settings(settings, webhook),
            rate_limit=(
                TokenBuckets(rate, _BURST_SECONDS * rate, rate_limit_times) if rate else None
            ),
        )
        calls = CallLog(database)
        async with _working(services, calls):
            token = settings.token
            app = BasicApplication(
                services=services,
                calls=calls,
                settings=settings,
                owner_dsn=postgres.owner_dsn,
                bearer=await authenticate_token(services, token, Channel.CLI) if token else None,
            )
            if check is not None:
                await check(app)
            yield app


def _prepare_schema(postgres: DatabaseServer, settings: Settings) -> None:
    """Apply pending migrations, or check that all migrations are applied."""
    if settings.migrates_at_start:
        migrate(postgres.owner_dsn, vectors=postgres.vectors)
    elif postgres.role is not None:
        check_schema(postgres.app_dsn, postgres.role)


async def run_migrations(settings: Settings) -> list[str]:
    async with database_server(settings) as postgres:
        return await asyncio.to_thread(migrate, postgres.owner_dsn, vectors=postgres.vectors)


async def distribute_tables(settings: Settings) -> list[str]:
    async with database_server(settings) as postgres:
        return await asyncio.to_thread(distribute, postgres.owner_dsn)


async def pending_migrations(postgres: DatabaseServer) -> list[str]:
    return await asyncio.to_thread(list_pending, postgres.owner_dsn)


@asynccontextmanager
async def database_server(settings: Settings) -> AsyncIterator[DatabaseServer]:
    """Yield the configured PostgreSQL server, or the embedded one, which runs during the block."""
    if settings.search_vectors == Backend.PGVECTOR and not settings.database_url:
        raise Misconfigured(
            "search_vectors is pgvector, which the embedded PostgreSQL does not use: a prebuilt "
            "pgvector may not run on this processor. Set database_url to a server of your own, or "
            "search_vectors to auto"
        )
    if settings.database_url:
        owner = settings.owner_url or settings.database_url
        vectors = settings.search_vectors != "portable"
        url = settings.database_url
        yield DatabaseServer(app_dsn=url, owner_dsn=owner, role=APP_ROLE, vectors=vectors)
        return
    attachment = await asyncio.to_thread(attach, Path(settings.data_dir))
    try:
        yield DatabaseServer(
            app_dsn=attachment.app_dsn, owner_dsn=attachment.owner_dsn, role=None, vectors=False
        )
    finally:
        attachment.close()


@asynccontextmanager
async def open_database(
    postgres: DatabaseServer, settings: Settings, *, serving: bool = False
) -> AsyncIterator[Database]:
    """Yield the database with the server's database role. If `serving`, use short timeouts.

    Raises:
        Misconfigured: the database user of the URL cannot switch to the server's database role,
            or this role bypasses row-level security.
        Unavailable: the database is unreachable.
    """
    if postgres.role is not None:
        await asyncio.to_thread(check_serving_role, postgres.app_dsn, postgres.role)
    pool = ConnectionPool(postgres.app_dsn, size=settings.pool_size)
    if not serving:
        pool.wire.be_patient()
    with contextlib.closing(Database(pool, role=postgres.role)) as database:
        yield database


@asynccontextmanager
async def _working(services: Services, calls: CallLog) -> AsyncIterator[None]:
    loops = (
        log_calls_for_ever(services, calls),
        token_use_flush_loop(services),
        event_publish_loop(services),
        event_listen_loop(services),
        change_poll_loop(services, _CHANGE_POLL_SECONDS),
    )
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        await cancel(tasks)
        # Telemetry is not important enough to wait for an unreachable database.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await calls.flush()
                await services.last_used.flush(services.database)
                # If sending fails, other processes find the changes by polling.
                with contextlib.suppress(WaybookError):
                    await pg_notify.send_pending(services.database, services.bus)


async def cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
