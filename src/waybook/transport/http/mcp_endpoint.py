"""Stateless MCP endpoint: one POST request, one response, no sessions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from http import HTTPStatus

import anyio
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from waybook.transport.http.rate_limits import RequestThrottle
from waybook.transport.http.request_checks import BODY_LIMIT, replay_body
from waybook.transport.http.responses import json_response
from waybook.transport.jsonrpc import (
    APPS_SESSION,
    InvalidMessage,
    declares_apps,
    may_wait,
    read_message,
    tool_with_progress,
)
from waybook.transport.mcp.direct_calls import ToolServer


class McpEndpoint:
    """MCP over HTTP; calls that request progress get an event stream, other calls get JSON."""

    def __init__(
        self, server: ToolServer, reporting: frozenset[str], pace: RequestThrottle | None = None
    ) -> None:
        """Create the endpoint of an MCP server; `reporting` names tools that send notifications."""
        self.pace = pace
        self.direct_calls = server.direct_calls
        self.reporting = reporting
        self.plain = session_managers(server, streamed=False)
        self.streamed = session_managers(server, streamed=True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run both MCP session managers within the block. This works only once per instance."""
        async with self.plain.run(), self.streamed.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a valid MCP message to the MCP library, and reject every other request."""
        request = Request(scope, receive)
        if request.method != "POST":
            # The endpoint has no sessions, so GET has no stream to open and DELETE has nothing to
            # close.
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": "POST"})
        body = await request.body()
        message = read_message(body)
        if isinstance(message, InvalidMessage):
            error = {"code": message.code, "message": message.message}
            reply = json_response({"jsonrpc": "2.0", "id": None, "error": error}, 400)
            await reply(scope, receive, send)
            return
        if self.pace and (refusal := await self.pace.rate_limited_mcp_response(request, message)):
            await refusal(scope, receive, send)
            return
        streams = tool_with_progress(message) in self.reporting
        streams = streams and "text/event-stream" in request.headers.get("accept", "")
        direct, call = self.direct_calls, None
        if direct is not None and not streams:
            call = direct.read(request, message)
        if direct is not None and call is not None:
            handling = send_answer(request, send, direct.answer(request, call))
        else:
            if declares_apps(message):
                send = with_header(send, b"mcp-session-id", APPS_SESSION.encode())
            manager = self.streamed if streams else self.plain
            handling = manager.handle_request(scope, replay_body(body, receive), send)
        await (cancel_on_disconnect(receive, handling) if may_wait(message) else handling)


async def send_answer(request: Request, send: Send, answer: Awaitable[bytes]) -> None:
    """Wait for the answer of a tool call, and send it as the response to a request."""
    response = Response(await answer, media_type="application/json")
    await response(request.scope, request.receive, send)


async def cancel_on_disconnect(receive: Receive, handling: Awaitable[None]) -> None:
    """Handle a request, and cancel the handling when the client disconnects.

    Without the cancellation, a step or job could be assigned to a client that is gone.
    """

    async def watch(scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    with anyio.CancelScope() as scope:
        watching = asyncio.create_task(watch(scope))
        try:
            await handling
        finally:
            watching.cancel()


def with_header(send: Send, name: bytes, value: bytes) -> Send:
    """Return an ASGI `send` function that adds one header to the response."""

    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (name, value)]}
        await send(message)

    return send_with_header


def session_managers(server: Server[None], *, streamed: bool) -> StreamableHTTPSessionManager:
    """Return a stateless session manager of the MCP library.

    The library's checks of Host and Origin are off, because `request_checks` makes them for every
    route.
    """
    return StreamableHTTPSessionManager(
        server,
        json_response=not streamed,
        stateless=True,
        max_request_body_size=BODY_LIMIT,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
