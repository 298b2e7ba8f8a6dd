"""The HTTP face: MCP for agents, health and figures for operators, a page for people."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from waybook.transport.web.dashboard.mishaps import error_page, for_people
from waybook.transport.web.described import described
from waybook.transport.web.elsewhere import for_our_pages, none_from_elsewhere
from waybook.transport.web.endpoint import Mcp
from waybook.transport.web.gate import Gate
from waybook.transport.web.guards import (
    BODY_LIMIT,
    as_reached,
    only_for,
    only_http,
    unpacked,
    within,
    without_blanks,
)
from waybook.transport.web.hosts import Hosts
from waybook.transport.web.metrics import Metric
from waybook.transport.web.operations import Operations
from waybook.transport.web.pace import Pace, at_a_pace
from waybook.transport.web.reading import Reading
from waybook.transport.web.replies import refusal
from waybook.transport.web.snapshots import Snapshots

ERRORS: Final = {
    HTTPStatus.NOT_FOUND: ("NOT_FOUND", "There is nothing at this address."),
    HTTPStatus.METHOD_NOT_ALLOWED: ("INVALID_INPUT", "This address does not take that method."),
}


async def http_error(request: Request, error: Exception) -> Response:
    """A refusal of the router's own, in the shape of all others."""
    if not isinstance(error, HTTPException):
        raise error
    code, message = ERRORS.get(
        HTTPStatus(error.status_code), ("INVALID_INPUT", "This cannot be asked.")
    )
    if for_people(request):
        return error_page(request, error.status_code, message)
    return refusal(error.status_code, code, message, error.headers)


async def broken(request: Request, _: Exception) -> Response:
    """Something of ours broke; the server's log knows what, the wire does not."""
    if for_people(request):
        return error_page(request, 500, "Something broke here.")
    return refusal(500, "UNAVAILABLE", "Something broke here; try again.")


def build_app(  # noqa: PLR0913 - one for each part of the face
    server: Server[None],
    *,
    hosts: Hosts,
    ready: Callable[[], Awaitable[bool]],
    stuck: Callable[[], bool] = bool,
    metrics: Callable[[], Iterable[Metric]] = tuple,
    reporting: frozenset[str] = frozenset(),
    reading: Reading | None = None,
    pages: Sequence[Route] = (),
    pace: Pace | None = None,
    gate: Gate | None = None,
) -> ASGIApp:
    """The whole HTTP face; one for each start, since the MCP endpoint runs only once.

    `hosts` are the names we answer to, `ready` says whether the database answers, `stuck` whether
    only a restart would help, `metrics` has the figures, `reporting` names the tools that tell of
    their progress, `reading` answers what is read of runs, `pages` are for people, `pace` is what
    an org is held to that calls too often, `gate` asks everybody who they are.
    """
    mcp, operations = Mcp(server, reporting, pace), Operations(ready, stuck, metrics)
    snapshots = Snapshots(pace)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with mcp.running():
            yield

    app = Starlette(
        routes=[
            *pages,
            Route("/mcp", mcp),
            Route("/mcp/", mcp),
            Route("/healthz", operations.healthz),
            Route("/readyz", operations.readyz),
            Route("/metrics", operations.figures),
            Route("/api/openapi.json", described),
            Route("/api/report", snapshots.report, methods=["POST"]),
            Route("/api/map", snapshots.map, methods=["POST"]),
            *(reading.routes() if reading else ()),
        ],
        exception_handlers={
            HTTPException: http_error,
            Exception: broken,
        },
        lifespan=running,
    )
    bounded = unpacked(within(BODY_LIMIT, app))
    paced = at_a_pace(pace, bounded) if pace else bounded
    known = as_reached(hosts.encrypted, gate.before(paced) if gate else paced)
    return only_http(for_our_pages(without_blanks(only_for(hosts, none_from_elsewhere(known)))))
