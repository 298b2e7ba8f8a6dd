"""The HTTP face: MCP for agents, health and figures for operators, a page for people."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from waybook.errors import WaybookError
from waybook.transport.web.guards import (
    BODY_LIMIT,
    only_for,
    only_http,
    replayed,
    within,
    without_blanks,
)
from waybook.transport.web.home import home
from waybook.transport.web.hosts import Hosts
from waybook.transport.web.jsonrpc import fault_of
from waybook.transport.web.metrics import Metric, exposition
from waybook.transport.web.replies import json_reply, refusal

READY_WITHIN: Final = 2.0  # seconds the database has to answer the readiness question

ERRORS: Final = {
    HTTPStatus.NOT_FOUND: ("NOT_FOUND", "There is nothing at this address."),
    HTTPStatus.METHOD_NOT_ALLOWED: ("INVALID_INPUT", "This address does not take that method."),
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Operations:
    """What operators ask: does the database answer, and the figures."""

    ready: Callable[[], Awaitable[bool]]
    metrics: Callable[[], Iterable[Metric]]

    async def healthz(self, _: Request) -> Response:
        """The process is alive."""
        return json_reply({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        """The database answers, and soon."""
        try:
            async with asyncio.timeout(READY_WITHIN):
                ready = await self.ready()
        except (TimeoutError, WaybookError):
            ready = False
        if not ready:
            return refusal(503, "UNAVAILABLE", "The database does not answer.")
        return json_reply({"status": "ready"})

    async def figures(self, _: Request) -> Response:
        """The figures, for Prometheus."""
        text = exposition(self.metrics())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


class Mcp:
    """The MCP endpoint: one POST, one answer, no sessions."""

    def __init__(self, server: Server[None]) -> None:
        self.manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            max_request_body_size=BODY_LIMIT,
            # Host and Origin are checked before every route, see `guards`.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a sound message to the protocol library, refuse anything else."""
        request = Request(scope, receive)
        if request.method != "POST":
            # Without sessions there is no stream to open and none to close.
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": "POST"})
        body = await request.body()
        if fault := fault_of(body):
            code, message = fault
            error = {"code": code, "message": message}
            await json_reply({"jsonrpc": "2.0", "id": None, "error": error}, 400)(
                scope, receive, send
            )
            return
        await self.manager.handle_request(scope, replayed(body, receive), send)


async def http_error(_: Request, error: Exception) -> Response:
    """A refusal of the router's own, in the shape of all others."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = error.headers if isinstance(error, HTTPException) else None
    code, message = ERRORS.get(HTTPStatus(status), ("INVALID_INPUT", "This cannot be asked."))
    return refusal(status, code, message, headers)


async def broken(request: Request, error: Exception) -> Response:
    """Something of ours broke; the log knows what, the wire does not."""
    logger.error("answering %s broke", request.url.path, exc_info=error)
    return refusal(500, "UNAVAILABLE", "Something broke here; try again.")


def build_app(
    server: Server[None],
    *,
    hosts: Hosts,
    ready: Callable[[], Awaitable[bool]],
    metrics: Callable[[], Iterable[Metric]] = tuple,
) -> ASGIApp:
    """The whole HTTP face; one for each start, since the MCP endpoint runs only once."""
    mcp, operations = Mcp(server), Operations(ready, metrics)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with mcp.manager.run():
            yield

    app = Starlette(
        routes=[
            Route("/", home),
            Route("/mcp", mcp),
            Route("/mcp/", mcp),
            Route("/healthz", operations.healthz),
            Route("/readyz", operations.readyz),
            Route("/metrics", operations.figures),
        ],
        exception_handlers={HTTPException: http_error, Exception: broken},
        lifespan=running,
    )
    return only_http(without_blanks(only_for(hosts, within(BODY_LIMIT, app))))
