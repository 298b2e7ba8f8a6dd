"""`waybook serve`: agents and people over HTTP."""

import contextlib
import socket
from dataclasses import replace
from functools import partial

import click
from starlette.requests import Request
from starlette.types import ASGIApp

from waybook.cli.logs import log_while_serving
from waybook.cli.options import listening_options, serving_options, settings_from
from waybook.doorway import Caller, Channel, Doorway
from waybook.endpoints.issued import SignIns
from waybook.endpoints.opening import opened_issuer
from waybook.settings import Found, Settings, as_host
from waybook.transport.entrance import Entrance
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools
from waybook.transport.web.app import build_app
from waybook.transport.web.dashboard.routes import dashboard_routes
from waybook.transport.web.dashboard.sign_in import HERE, SignIn
from waybook.transport.web.figures import figures
from waybook.transport.web.gate import Gate, admitted, still_admitted
from waybook.transport.web.hosts import Hosts
from waybook.transport.web.pace import Pace
from waybook.transport.web.proxies import read_proxies
from waybook.transport.web.reading import Reading
from waybook.transport.web.resource_metadata import ResourceMetadata
from waybook.transport.web.serving import listen, run, serve
from waybook.usecases.by_issuer import by_bearer
from waybook.wiring import Running, running, settle_memory


@click.command()
@listening_options
@serving_options
def command(**flags: object) -> None:
    """Serve agents and people over HTTP.

    Agents connect to /mcp. Also there: / for people, /api for programs, /healthz, /readyz and
    /metrics for operators.
    """
    found = settings_from(flags)
    log_while_serving(found)
    settings = found.settings
    read_proxies(settings.trusted_proxies)  # what cannot be is said before anything starts
    with contextlib.closing(listen(settings.host, settings.port)) as listening:
        # A token says who acts by a command; whoever serves acts by nobody's.
        known = replace(settings, port=listening.getsockname()[1], token=None)
        run(_serve(replace(found, settings=known), listening))


async def _serve(found: Found, listening: socket.socket) -> None:
    settings = found.settings
    async with opened_issuer(settings) as issuer, running(settings, waiting=report_wait) as house:
        app = app_of(house, found, issuer)
        settle_memory()
        _announce(settings)
        await serve(app, listening, house.doorway.bus.close)
    click.echo("Stopped; everything acknowledged is in the database.")


def report_wait(obstacle: str, waited: float, limit: float) -> None:
    """Report on standard error that the database is waited for."""
    click.echo(f"Waiting for the database ({waited:.0f} of {limit:.0f} s): {obstacle}", err=True)


def app_of(house: Running, found: Found, issuer: SignIns | None = None) -> ASGIApp:
    """The whole HTTP face of a house, for whoever its settings let in, or the issuer speaks for."""
    settings, asks = found.settings, found.settings.asks_everybody
    entrance = entrance_of(house, asks=asks)
    door = SignIn(
        house=house.doorway.house,
        base_url=settings.base_url,
        issuer=issuer,
        proxies=read_proxies(settings.trusted_proxies),
    )
    metadata = ResourceMetadata(issuer.settings) if issuer and asks else None
    pages = dashboard_routes(house.doorway, admitted if asks else partial(_person, house), found)
    server = build_server(published_tools(), entrance, profile=settings.tools)
    return build_app(
        server,
        hosts=hosts_of(settings),
        ready=entrance_of(house).answers,
        stuck=house.doorway.house.database.pool.is_stuck,
        metrics=partial(figures, house.doorway),
        reading=Reading(entrance_of(house, Channel.REST, asks=asks)),
        pace=Pace(entrance) if house.doorway.house.rate_limit is not None else None,
        pages=[
            *pages,
            *(door.routes() if asks else ()),
            *(metadata.routes() if metadata else ()),
        ],
        gate=gate_of(door, metadata, settings) if asks else None,
    )


def hosts_of(settings: Settings) -> Hosts:
    """The names we answer to."""
    encrypted = (settings.public_url or "").startswith("https:")
    return Hosts(settings.host_names, as_host(settings.base_url) if encrypted else None)


def gate_of(door: SignIn, metadata: ResourceMetadata | None, settings: Settings) -> Gate:
    """Who is let in, where everybody is asked."""
    return Gate(
        bearer=partial(by_bearer, door.house, door.issuer),
        browser=door.browser,
        sign_in=HERE,
        metrics_token=settings.metrics_token,
        metadata_url=metadata.address if metadata else None,
    )


async def _person(house: Running, _: Request) -> Caller:
    """Whoever sits at the browser: in local mode, the one user there is."""
    return house.caller(Channel.DASHBOARD)


def entrance_of(house: Running, channel: Channel = Channel.MCP, *, asks: bool = False) -> Entrance:
    """The way in over HTTP: for whoever the gate let in, or for the one user of local mode."""

    async def doorway() -> Doorway:
        return house.doorway

    async def caller(_: Request | None) -> Caller:
        return house.caller(channel)

    return Entrance(doorway, admitted, still_admitted) if asks else Entrance(doorway, caller)


def _announce(settings: Settings) -> None:
    url = settings.base_url
    kept = "the server at your URL" if settings.database_url else f"embedded, {settings.data_dir}"
    click.echo(f"{click.style('Waybook is serving', bold=True)}  {url}")
    shown = ' --header "Authorization: Bearer wb_…"' if settings.asks_everybody else ""
    click.echo(f"  agents     claude mcp add --transport http waybook {url}/mcp{shown}")
    if settings.asks_everybody:
        names = ", ".join(sorted({"localhost", *settings.host_names}))
        click.echo(f"  answers to {names}; to whoever shows a token (waybook token add)")
    click.echo(f"  tools      {settings.tools}")
    click.echo(f"  database   {kept}")
    click.echo("  stop       Ctrl-C")
