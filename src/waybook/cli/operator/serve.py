"""`waybook serve`: HTTP server for agents and people."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click
from starlette.requests import Request
from starlette.types import ASGIApp

from waybook.app.accounts.authentication import TokenCache, authenticate_bearer
from waybook.app.request.caller import Caller
from waybook.app.request.rate_limit import SharedTimes
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.logs import configure_server_logging
from waybook.cli.options import listening_options, serving_options
from waybook.cli.terminal.errors import CommandError
from waybook.cli.workers import Supervisor, SupervisorLink
from waybook.core.decision_context import Channel
from waybook.errors import WaybookError
from waybook.integrations.config import read_proxies
from waybook.integrations.factory import open_issuer
from waybook.integrations.oidc_login import IssuerClient
from waybook.page_address import PageClaim, server_claim
from waybook.settings import LoadedSettings, Settings, host_header
from waybook.settings_reading import settings_from
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.authentication import (
    AuthGate,
    authenticated_caller,
    metadata_routes,
    metadata_url,
    reauthenticate,
)
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.dashboard.sign_in import SIGN_IN_PATH, SignInPage
from waybook.transport.http.metrics import (
    PUBLISH_SECONDS,
    CollectMetrics,
    SharedMetrics,
    WorkerMetrics,
    collect_metrics,
)
from waybook.transport.http.rate_limits import FailedCredentials, RequestThrottle
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.server import Drain, listen, run, serve
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

log = logging.getLogger(__name__)

_RECORD_INTERVAL_SECONDS: Final = 1.0


@click.command()
@listening_options
@click.option("--workers", type=int, metavar="N", help="Number of server processes (1).")
@serving_options
def command(**flags: object) -> None:
    """Start the HTTP server (MCP, dashboard, API).

    Agents connect to /mcp. Other paths: / for people, /api for programs, /healthz, /readyz and
    /metrics for operators.
    """
    loaded = settings_from(flags)
    configure_server_logging(loaded)
    settings = loaded.settings
    read_proxies(settings.trusted_proxies)  # Report an invalid proxy list before anything starts.
    with server_claim(settings) as claim, contextlib.ExitStack() as sockets:
        listening = sockets.enter_context(
            contextlib.closing(listen(settings.host, settings.port, shared=settings.workers > 1))
        )
        # The token in the settings is for commands. Callers of a server send their own tokens.
        known = replace(settings, port=listening.getsockname()[1], token=None)
        start = partial(_serve, replace(loaded, settings=known))
        if settings.workers == 1:
            run(start(listening, claim))
            return
        # Give each worker its own socket, because one worker would accept nearly all connections of
        # a socket that they share.
        port = known.port
        more = [listen(settings.host, port, shared=True) for _ in range(1, settings.workers)]
        for socket_of_worker in more:
            sockets.enter_context(contextlib.closing(socket_of_worker))
        times, metrics = SharedTimes(), SharedMetrics(settings.workers)

        def serve_as_worker(link: SupervisorLink) -> int:
            own_claim = None if link.index else claim
            try:
                run(start((listening, *more)[link.index], own_claim, link, times, metrics))
            except WaybookError as error:
                CommandError(error).show()
                return 1
            except Exception:
                log.exception("worker %d ends", link.index)
                return 1
            return 0

        sys.exit(Supervisor(settings.workers, serve_as_worker).run())


async def _serve(
    loaded: LoadedSettings,
    listening: socket.socket,
    claim: PageClaim | None,
    link: SupervisorLink | None = None,
    rate_limit_times: SharedTimes | None = None,
    metrics: SharedMetrics | None = None,
) -> None:
    settings = loaded.settings
    async with (
        _in_background(_record(claim, settings)) if claim else contextlib.nullcontext(),
        open_issuer(settings) as issuer,
        start_application(
            settings,
            waiting=report_wait,
            find_base_url=lambda: settings.base_url,
            rate_limit_times=rate_limit_times,
        ) as services,
        contextlib.AsyncExitStack() as stack,
    ):
        drain = Drain(settings.drain_seconds)
        collect: CollectMetrics = partial(collect_metrics, services.dispatcher)
        if metrics is not None and link is not None:
            own = WorkerMetrics(metrics, link.index, collect)
            collect = own.collect
            await stack.enter_async_context(_in_background(_publish(own)))
        app = build_http_app(services, loaded, issuer, drain, collect)
        freeze_gc()
        announce = partial(_announce, settings, link)
        await serve(app, listening, services.dispatcher.bus.close, announce, drain=drain)
    if link is None or link.index == 0:
        click.echo("Stopped; everything acknowledged is in the database.")


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _publish(metrics: WorkerMetrics) -> None:
    """Write this worker's metrics regularly and at the end, for the other workers to read."""
    try:
        while True:
            metrics.publish()
            await asyncio.sleep(PUBLISH_SECONDS)
    finally:
        metrics.publish()


async def _record(claim: PageClaim, settings: Settings) -> None:
    """Record the server's URL in the data directory, where other processes read it for links."""
    is_recorded = False
    while not is_recorded:
        try:
            is_recorded = claim.try_record_server(settings.base_url)
        except OSError as error:  # The disk may be full.
            log.warning("cannot record the address of the server: %s", error)
        await asyncio.sleep(_RECORD_INTERVAL_SECONDS)


def report_wait(obstacle: str, waited: float, limit: float) -> None:
    click.echo(f"Waiting for the database ({waited:.0f} of {limit:.0f} s): {obstacle}", err=True)


def build_http_app(
    services: Application,
    loaded: LoadedSettings,
    issuer: IssuerClient | None = None,
    drain: Drain | None = None,
    metrics: CollectMetrics | None = None,
) -> ASGIApp:
    """Return the HTTP application.

    `metrics` returns the metrics that the endpoint `/metrics` publishes.
    """
    settings, asks = loaded.settings, loaded.settings.requires_auth
    drain = drain or Drain()
    is_reachable, stopping = build_gateway(services).is_ready, drain.begun

    async def is_ready() -> bool:
        return not stopping.is_set() and await is_reachable()

    gateway = build_gateway(services, asks=asks)
    door = SignInPage(
        services=services.services,
        base_url=settings.base_url,
        issuer=issuer,
        proxies=read_proxies(settings.trusted_proxies),
        failures=FailedCredentials(pause=drain.pause),
    )

    async def local_user(_: Request) -> Caller:
        return services.caller(Channel.DASHBOARD)

    person = authenticated_caller if asks else local_user
    pages = dashboard_routes(services.dispatcher, person, loaded)
    server = build_server(published_tools(), gateway, profile=settings.tools)
    return build_app(
        server,
        hosts=allowed_hosts(settings),
        ready=is_ready,
        stuck=services.services.database.pool.is_stuck,
        metrics=metrics or partial(collect_metrics, services.dispatcher),
        reading=ReadApi(build_gateway(services, Channel.REST, asks=asks)),
        pace=RequestThrottle(gateway, drain.pause)
        if services.services.rate_limit is not None
        else None,
        pages=[
            *pages,
            *(door.routes() if asks else ()),
            *(metadata_routes(issuer.settings) if issuer and asks else ()),
        ],
        gate=build_auth_gate(door, settings) if asks else None,
    )


def allowed_hosts(settings: Settings) -> AllowedHosts:
    encrypted = (settings.public_url or "").startswith("https:")
    return AllowedHosts(settings.host_names, host_header(settings.base_url) if encrypted else None)


def build_auth_gate(door: SignInPage, settings: Settings) -> AuthGate:
    tokens = TokenCache(door.services.database.now)
    return AuthGate(
        bearer=partial(authenticate_bearer, door.services, door.issuer, cache=tokens),
        cached_bearer=tokens.get,
        browser=door.browser,
        sign_in=SIGN_IN_PATH,
        metrics_token=settings.metrics_token,
        metadata_url=metadata_url(door.issuer.settings) if door.issuer else None,
        failures=door.failures,
        proxies=door.proxies,
    )


def build_gateway(
    services: Application, channel: Channel = Channel.MCP, *, asks: bool = False
) -> ToolGateway:
    async def dispatcher() -> ServerDispatcher:
        return services.dispatcher

    async def caller(_: Request | None) -> Caller:
        return services.caller(channel)

    return (
        ToolGateway(dispatcher, authenticated_caller, reauthenticate)
        if asks
        else ToolGateway(dispatcher, caller)
    )


def _announce(settings: Settings, link: SupervisorLink | None) -> None:
    if link is not None:
        link.report_serving()
        stop = partial(os.kill, os.getpid(), signal.SIGTERM)
        asyncio.get_running_loop().add_reader(link.lifeline, stop)
        if link.index:
            return
    url = settings.base_url
    database = (
        "the server at your URL" if settings.database_url else f"embedded, {settings.data_dir}"
    )
    click.echo(f"{click.style('Waybook is serving', bold=True)}  {url}")
    shown = ' --header "Authorization: Bearer wb_…"' if settings.requires_auth else ""
    click.echo(f"  agents     claude mcp add --transport http waybook {url}/mcp{shown}")
    if settings.requires_auth:
        names = ", ".join(sorted({"localhost", *settings.host_names}))
        click.echo(f"  hosts      {names}; API token required (waybook token add)")
    click.echo(f"  tools      {settings.tools}")
    click.echo(f"  database   {database}")
    if link is not None:
        click.echo(f"  workers    {settings.workers}")
    click.echo("  stop       Ctrl-C")
