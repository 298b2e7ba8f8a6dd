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

from waybook.background import (
    deliver_for_ever,
    index_for_ever,
    listen_for_ever,
    log_calls_for_ever,
    look_for_ever,
    note_uses_for_ever,
    render_for_ever,
    retain_for_ever,
    send_for_ever,
    sweep_for_ever,
)
from waybook.doorway import Caller, Channel, Doorway
from waybook.endpoints.opening import opened_embedder, opened_model, opened_postman
from waybook.endpoints.webhook_settings import read_webhook
from waybook.errors import Forbidden, WaybookError
from waybook.orgs.names import sound_slug
from waybook.postgres.supervisor import attach
from waybook.record.scopes import EVERY, Scope
from waybook.research.text_model import TextModel
from waybook.settings import Settings
from waybook.store import post
from waybook.store.calls import CallLog
from waybook.store.database import ConnectionPool, Database
from waybook.store.ids import new_id
from waybook.store.migrate import APP_ROLE, VectorTable, migrate, pending
from waybook.store.owner_role import examine_owner
from waybook.store.serving_role import check_serving_role
from waybook.store.startup import WaitReport, wait_until_reachable
from waybook.store.tenants import LOCAL_ORG, add_org
from waybook.usecases.findings import Finding, State, about_owner
from waybook.usecases.house import House
from waybook.usecases.identify import by_token
from waybook.usecases.library import Library
from waybook.usecases.rate_limit import RateLimit
from waybook.usecases.search_settings import check_search, open_library
from waybook.usecases.skill_folders import read_skills

log = logging.getLogger(__name__)

#: How often to look for changes that nobody told of, while somebody wants to know.
LOOK_SECONDS = 3.0
#: How long the last writes of telemetry may take at shutdown.
FLUSH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running system: its doorway, and who acts in local mode."""

    doorway: Doorway
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
            scopes=EVERY if channel is Channel.DASHBOARD else EVERY - {Scope.REVIEW},
        )

    async def identified(self, channel: Channel) -> Caller:
        """The same, for somebody who stays: a token is looked up anew.

        Raises:
            Unidentified: it counts no more.
        """
        token = self.settings.token
        if token is None:
            return self.caller(channel)
        return await by_token(self.doorway.house, token, channel)

    async def found_org(self, slug: str) -> UUID:
        """Make an org, as the owner of the database.

        Raises:
            InvalidInput: there is one of this slug, or none can be called so.
            Forbidden: a token lets nobody do that.
        """
        if self.bearer is not None:
            raise Forbidden("orgs are made by whoever runs the server, without a token")
        org_id = UUID(new_id())
        await asyncio.to_thread(add_org, self.owner_dsn, org_id, sound_slug(slug))
        return org_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The PostgreSQL to use: as whom to serve, as whom to migrate, and which role to take."""

    app_dsn: str
    owner_dsn: str
    role: str | None
    #: What to do about the table of pgvector's vectors when migrating.
    vectors: VectorTable = VectorTable.MAKE


@asynccontextmanager
async def running(
    settings: Settings, *, sweeping: bool = True, waiting: WaitReport | None = None
) -> AsyncIterator[Running]:
    """Start everything, and stop it in the opposite order.

    With `waiting`, a database that is still starting is waited for, and progress goes there.
    """
    async with server(settings) as postgres:
        if waiting is not None:
            limit = settings.database_wait_seconds
            for dsn in dict.fromkeys((postgres.owner_dsn, postgres.app_dsn)):
                await wait_until_reachable(dsn, limit, waiting)
        await asyncio.to_thread(migrate, postgres.owner_dsn, postgres.vectors)
        if sweeping and postgres.role is not None:
            await _warn_of_owner(postgres)
        webhook = read_webhook(settings)
        async with (
            opened(postgres, settings, serving=sweeping) as database,
            opened_embedder(settings) as embedder,
            opened_model(settings) as model,
            opened_postman(webhook) as postman,
        ):
            if postman and sweeping:
                await postman.warm()
            house = House(
                database=database,
                skills=read_skills(settings.skills_dirs),
                patience=timedelta(seconds=settings.stall_seconds),
                base_url=settings.base_url,
                lease=timedelta(seconds=settings.lease_seconds),
                library=await _library(database, settings, embedder),
                model=model,
                model_seconds=settings.model_seconds,
                tells=webhook.events if webhook else frozenset(),
                postman=postman,
                rate_limit=_rate_limit(settings),
            )
            calls = CallLog(database)
            owner_dsn = postgres.owner_dsn if sweeping and settings.sweep_seconds else None
            async with _working(house, calls, settings, owner_dsn):
                token = settings.token
                yield Running(
                    doorway=Doorway(house, calls),
                    settings=settings,
                    owner_dsn=postgres.owner_dsn,
                    bearer=await by_token(house, token, Channel.CLI) if token else None,
                )


async def _library(database: Database, settings: Settings, embedder: TextModel | None) -> Library:
    library = open_library(settings, embedder)
    await library.check(database, LOCAL_ORG)
    return library


def _rate_limit(settings: Settings) -> RateLimit | None:
    return RateLimit(settings.pace, settings.burst) if settings.pace else None


async def run_migrations(settings: Settings) -> list[str]:
    """Bring the database up to date, and no more; returns the names of what ran."""
    async with server(settings) as postgres:
        return await asyncio.to_thread(migrate, postgres.owner_dsn, postgres.vectors)


async def examined_owner(postgres: Server) -> Finding:
    """Return the finding about the role of the owner's URL."""
    return about_owner(await asyncio.to_thread(examine_owner, postgres.owner_dsn))


async def _warn_of_owner(postgres: Server) -> None:
    found = await examined_owner(postgres)
    if found.state is not State.OK:
        log.warning("the owner of the database: %s; %s", found.said, found.todo)


async def pending_migrations(postgres: Server) -> list[str]:
    """The names of the migrations the database has not seen yet."""
    return await asyncio.to_thread(pending, postgres.owner_dsn)


@asynccontextmanager
async def server(settings: Settings) -> AsyncIterator[Server]:
    """The configured PostgreSQL, or the embedded one for as long as we need it."""
    check_search(settings)
    if settings.database_url:
        owner = settings.owner_url or settings.database_url
        portable = settings.search_vectors == "portable"
        vectors = VectorTable.LEAVE if portable else VectorTable.MAKE
        url = settings.database_url
        yield Server(app_dsn=url, owner_dsn=owner, role=APP_ROLE, vectors=vectors)
        return
    attachment = await asyncio.to_thread(attach, Path(settings.data_dir))
    try:
        yield Server(
            app_dsn=attachment.app_dsn,
            owner_dsn=attachment.owner_dsn,
            role=None,
            vectors=VectorTable.DROP,
        )
    finally:
        attachment.close()


@asynccontextmanager
async def opened(
    postgres: Server, settings: Settings, *, serving: bool = False
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
    house: House, calls: CallLog, settings: Settings, owner_dsn: str | None
) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(log_calls_for_ever(house, calls)),
        asyncio.create_task(note_uses_for_ever(house)),
        asyncio.create_task(send_for_ever(house)),
        asyncio.create_task(listen_for_ever(house)),
        asyncio.create_task(look_for_ever(house, LOOK_SECONDS)),
    ]
    if owner_dsn is not None:
        sweep_seconds = settings.sweep_seconds
        tasks.append(asyncio.create_task(sweep_for_ever(house, sweep_seconds)))
        tasks.append(asyncio.create_task(render_for_ever(house, sweep_seconds)))
        tasks.append(asyncio.create_task(index_for_ever(house, sweep_seconds)))
        tasks.append(asyncio.create_task(deliver_for_ever(house, sweep_seconds)))
        tasks.append(asyncio.create_task(retain_for_ever(house, owner_dsn, settings)))
    try:
        yield
    finally:
        house.draughtsman.close()
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
                await house.last_used.write(house.database)
                with contextlib.suppress(WaybookError):  # others find it by looking
                    await post.send(house.database, house.bus)


def settle_memory() -> None:
    """Once all is up: what was made at the start stays, so do not look at it again and again.

    A call makes a few thousand objects that die by themselves; the collector may wait for more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
