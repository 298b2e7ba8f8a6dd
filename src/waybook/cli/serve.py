"""`waybook serve`: agents and people over HTTP."""

import contextlib
import socket
from dataclasses import replace
from functools import partial

import click
from starlette.requests import Request

from waybook.cli.logs import log_while_serving
from waybook.cli.options import listening_options, serving_options, settings_from
from waybook.doorway import Caller, Channel, Doorway
from waybook.settings import Found, Settings
from waybook.transport.entrance import Entrance
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools
from waybook.transport.web.app import build_app
from waybook.transport.web.dashboard.routes import dashboard_routes
from waybook.transport.web.figures import figures
from waybook.transport.web.hosts import Hosts
from waybook.transport.web.pace import Pace
from waybook.transport.web.reading import Reading
from waybook.transport.web.serving import listen, run, serve
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
    with contextlib.closing(listen(settings.host, settings.port)) as listening:
        known = replace(settings, port=listening.getsockname()[1])
        run(_serve(replace(found, settings=known), listening))


async def _serve(found: Found, listening: socket.socket) -> None:
    settings = found.settings
    async with running(settings) as house:
        entrance = entrance_of(house)
        server = build_server(published_tools(), entrance, profile=settings.tools)
        app = build_app(
            server,
            hosts=Hosts(),
            ready=entrance.answers,
            metrics=partial(figures, house.doorway),
            reading=Reading(entrance_of(house, Channel.REST)),
            pace=Pace(entrance) if house.doorway.house.rate_limit else None,
            pages=dashboard_routes(house.doorway, partial(_person, house), found),
        )
        settle_memory()
        _announce(settings)
        await serve(app, listening, house.doorway.bus.close)
    click.echo("Stopped; everything acknowledged is in the database.")


async def _person(house: Running, _: Request) -> Caller:
    """Whoever sits at the browser: in local mode, the one user there is."""
    return house.caller(Channel.DASHBOARD)


def entrance_of(house: Running, channel: Channel = Channel.MCP) -> Entrance:
    """The way in over HTTP, for the one user of local mode."""

    async def doorway() -> Doorway:
        return house.doorway

    async def caller(_: Request | None) -> Caller:
        return house.caller(channel)

    return Entrance(doorway, caller)


def _announce(settings: Settings) -> None:
    url = settings.own_url
    kept = "the server at your URL" if settings.database_url else f"embedded, {settings.data_dir}"
    click.echo(f"{click.style('Waybook is serving', bold=True)}  {url}")
    click.echo(f"  agents     claude mcp add --transport http waybook {url}/mcp")
    click.echo(f"  tools      {settings.tools}")
    click.echo(f"  database   {kept}")
    click.echo("  stop       Ctrl-C")
