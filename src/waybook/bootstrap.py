"""The composition root: settings in, a running system out."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from waybook.accounts.model import validate_slug
from waybook.app.accounts.authentication import authenticate_token
from waybook.app.dispatcher import Dispatcher
from waybook.app.operations.diagnostics import CheckResult, CheckState, about_owner
from waybook.app.request.caller import Caller
from waybook.app.request.rate_limit import TokenBuckets
from waybook.app.request.search_settings import check_search, open_library
from waybook.app.request.services import SearchBackend, Services
from waybook.app.skills.loader import read_skills
from waybook.background import (
    change_poll_loop,
    delivery_loop,
    event_listen_loop,
    event_publish_loop,
    index_loop,
    log_calls_for_ever,
    render_loop,
    retention_loop,
    stall_sweep_loop,
    token_use_flush_loop,
)
from waybook.core.decision_context import ALL_SCOPES, Channel, Scope
from waybook.embedded_postgres.supervisor import attach
from waybook.errors import Forbidden, WaybookError
from waybook.integrations.config import webhook_from_settings
from waybook.integrations.factory import open_embedder, open_model, open_webhook_sender
from waybook.research.embedding import EmbeddingModel
from waybook.settings import Settings
from waybook.store.accounts.accounts import LOCAL_ORG, add_org
from waybook.store.calls import CallLog
from waybook.store.driver import pg_notify
from waybook.store.driver.database import Database
from waybook.store.driver.ids import new_id
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.startup import WaitReport, wait_until_reachable
from waybook.store.maintenance.migrate import (
    APP_ROLE,
    VectorTable,
    check_serving_role,
    list_pending,
    migrate,
)
from waybook.store.maintenance.owner_role import examine_owner

log = logging.getLogger(__name__)

#: How often to look for changes that nobody told of, while somebody wants to know.
CHANGE_POLL_SECONDS = 3.0
#: How long the last writes of telemetry may take at shutdown.
FLUSH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A running system: its doorway, and who acts in local mode."""

    doorway: Dispatcher
    settings: Settings
    owner_dsn: str = ""
    #: Whose token it was started with, if it was.
    bearer: Caller | None = None

    def caller(self, channel: Channel) -> Caller:
        """The bearer of our token, or the one user of local mode, coming through this door."""
        if self.bearer is not None:
            return replace(self.bearer, channel=channel)
        return Caller(
            org_id=LOCAL_ORG,
            user=self.settings.user,
            channel=channel,
            # Where nobody signs in, a page is the one place where a person can be supposed.
            scopes=ALL_SCOPES if channel is Channel.DASHBOARD else ALL_SCOPES - {Scope.REVIEW},
        )

    async def caller_resolver(self, channel: Channel) -> Caller:
        """The same, for somebody who stays: a token is looked up anew.

        Raises:
            Unidentified: it counts no more.
        """
        token = self.settings.token
        if token is None:
            return self.caller(channel)
        return await authenticate_token(self.doorway.house, token, channel)

    async def create_org(self, slug: str) -> UUID:
        """Make an org, as the owner of the database.

        Raises:
            InvalidInput: there is one of this slug, or none can be called so.
            Forbidden: a token lets nobody do that.
        """
        if self.bearer is not None:
            raise Forbidden("orgs are made by whoever runs the server, without a token")
        org_id = UUID(new_id())
        await asyncio.to_thread(add_org, self.owner_dsn, org_id, validate_slug(slug))
        return org_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseServer:
    """The PostgreSQL to use: as whom to serve, as whom to migrate, and which role to take."""

    app_dsn: str
    owner_dsn: str
    role: str | None
    #: What to do about the table of pgvector's vectors when migrating.
    vectors: VectorTable = VectorTable.MAKE


@asynccontextmanager
async def start_application(
    settings: Settings, *, sweeping: bool = True, waiting: WaitReport | None = None
) -> AsyncIterator[Application]:
    """Start everything, and stop it in the opposite order.

    With `waiting`, a database that is still starting is waited for, and progress goes there.
    """
    async with database_server(settings) as postgres:
        if waiting is not None:
            limit = settings.database_wait_seconds
            for dsn in dict.fromkeys((postgres.owner_dsn, postgres.app_dsn)):
                await wait_until_reachable(dsn, limit, waiting)
        await asyncio.to_thread(migrate, postgres.owner_dsn, postgres.vectors)
        if sweeping and postgres.role is not None:
            await _warn_of_owner(postgres)
        webhook = webhook_from_settings(settings)
        async with (
            open_database(postgres, settings, serving=sweeping) as database,
            open_embedder(settings) as embedder,
            open_model(settings) as model,
            open_webhook_sender(webhook) as sender,
        ):
            if sender and sweeping:
                await sender.warm()
            services = Services(
                database=database,
                skills=read_skills(settings.skills_dirs),
                stall_threshold=timedelta(seconds=settings.stall_seconds),
                base_url=settings.base_url,
                lease=timedelta(seconds=settings.lease_seconds),
                search_backend=await _library(database, settings, embedder),
                model=model,
                model_seconds=settings.model_seconds,
                notification_events=webhook.events if webhook else frozenset(),
                webhook_sender=sender,
                rate_limit=_rate_limit(settings),
            )
            calls = CallLog(database)
            owner_dsn = postgres.owner_dsn if sweeping and settings.sweep_seconds else None
            async with _working(services, calls, settings, owner_dsn):
                token = settings.token
                yield Application(
                    doorway=Dispatcher(services, calls),
                    settings=settings,
                    owner_dsn=postgres.owner_dsn,
                    bearer=await authenticate_token(services, token, Channel.CLI)
                    if token
                    else None,
                )


async def _library(
    database: Database, settings: Settings, embedder: EmbeddingModel | None
) -> SearchBackend:
    library = open_library(settings, embedder)
    await library.check(database, LOCAL_ORG)
    return library


def _rate_limit(settings: Settings) -> TokenBuckets | None:
    return (
        TokenBuckets(settings.effective_calls_per_second, settings.burst)
        if settings.effective_calls_per_second
        else None
    )


async def run_migrations(settings: Settings) -> list[str]:
    """Bring the database up to date, and no more; returns the names of what ran."""
    async with database_server(settings) as postgres:
        return await asyncio.to_thread(migrate, postgres.owner_dsn, postgres.vectors)


async def examined_owner(postgres: DatabaseServer) -> CheckResult:
    """Return the finding about the role of the owner's URL."""
    return about_owner(await asyncio.to_thread(examine_owner, postgres.owner_dsn))


async def _warn_of_owner(postgres: DatabaseServer) -> None:
    found = await examined_owner(postgres)
    if found.state is not CheckState.OK:
        log.warning("the owner of the database: %s; %s", found.message, found.remedy)


async def pending_migrations(postgres: DatabaseServer) -> list[str]:
    """The names of the migrations the database has not seen yet."""
    return await asyncio.to_thread(list_pending, postgres.owner_dsn)


@asynccontextmanager
async def database_server(settings: Settings) -> AsyncIterator[DatabaseServer]:
    """The configured PostgreSQL, or the embedded one for as long as we need it."""
    check_search(settings)
    if settings.database_url:
        owner = settings.owner_url or settings.database_url
        portable = settings.search_vectors == "portable"
        vectors = VectorTable.LEAVE if portable else VectorTable.MAKE
        url = settings.database_url
        yield DatabaseServer(app_dsn=url, owner_dsn=owner, role=APP_ROLE, vectors=vectors)
        return
    attachment = await asyncio.to_thread(attach, Path(settings.data_dir))
    try:
        yield DatabaseServer(
            app_dsn=attachment.app_dsn,
            owner_dsn=attachment.owner_dsn,
            role=None,
            vectors=VectorTable.DROP,
        )
    finally:
        attachment.close()


@asynccontextmanager
async def open_database(
    postgres: DatabaseServer, settings: Settings, *, serving: bool = False
) -> AsyncIterator[Database]:
    """A pool of connections as the serving role; with short deadlines where others wait.

    Raises:
        Misconfigured: the user of the database URL cannot take that role on.
        Unavailable: they cannot connect.
    """
    if postgres.role is not None:
        await asyncio.to_thread(check_serving_role, postgres.app_dsn, postgres.role)
    pool = ConnectionPool(postgres.app_dsn, size=settings.pool_size)
    if not serving:
        pool.wire.be_patient()
    with contextlib.closing(Database(pool, role=postgres.role)) as database:
        yield database


@asynccontextmanager
async def _working(
    services: Services, calls: CallLog, settings: Settings, owner_dsn: str | None
) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(log_calls_for_ever(services, calls)),
        asyncio.create_task(token_use_flush_loop(services)),
        asyncio.create_task(event_publish_loop(services)),
        asyncio.create_task(event_listen_loop(services)),
        asyncio.create_task(change_poll_loop(services, CHANGE_POLL_SECONDS)),
    ]
    if owner_dsn is not None:
        sweep_seconds = settings.sweep_seconds
        tasks.append(asyncio.create_task(stall_sweep_loop(services, sweep_seconds)))
        tasks.append(asyncio.create_task(render_loop(services, sweep_seconds)))
        tasks.append(asyncio.create_task(index_loop(services, sweep_seconds)))
        tasks.append(asyncio.create_task(delivery_loop(services, sweep_seconds)))
        tasks.append(asyncio.create_task(retention_loop(services, owner_dsn, settings)))
    try:
        yield
    finally:
        services.layout_worker.close()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(
            TimeoutError
        ):  # telemetry; a database that is away is not waited for
            async with asyncio.timeout(FLUSH_SECONDS):
                await calls.flush()
                await services.last_used.flush(services.database)
                with contextlib.suppress(WaybookError):  # others find it by looking
                    await pg_notify.send_pending(services.database, services.bus)


def freeze_gc() -> None:
    """Once all is up: what was made at the start stays, so do not look at it again and again.

    A call makes a few thousand objects that die by themselves; the collector may wait for more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
