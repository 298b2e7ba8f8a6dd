"""Stateless MCP endpoint: one POST request, one response, no sessions."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ErrorData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from waybook.errors import WaybookError
from waybook.tracing import TRACING, trace_fields
from waybook.transport.gateway import FAULT, RATE_COUNTED, request_state
from waybook.transport.http.connection import (
    ResponseSend,
    cached_caller,
    replay_body,
    verify_credential,
)
from waybook.transport.http.rate_limits import (
    BODY_BYTES_PER_CALL,
    RequestThrottle,
    mcp_error_response,
)
from waybook.transport.http.responses import json_response
from waybook.transport.jsonrpc import (
    APPS_SESSION,
    MESSAGE_LIMIT,
    declares_apps,
    may_wait,
    outline_message,
    read_message,
)
from waybook.transport.mcp.direct_calls import DirectCall, DirectCalls, ToolServer


class McpEndpoint:
    """MCP over HTTP, by a session manager of the MCP library that keeps no sessions."""

    def __init__(self, server: ToolServer, pace: RequestThrottle | None = None) -> None:
        self.pace = pace
        self.direct_calls = server.direct_calls
        self.manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            max_request_body_size=MESSAGE_LIMIT,
            # `RequestPipeline` checks `Host` and `Origin`.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request that is not a POST. POST requests go to `handle` instead."""
        del scope, receive, send
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": "POST"})

    async def handle(self, request: Request, body: bytes, send: ResponseSend) -> None:
        scope, receive = request.scope, request.receive
        state = request_state(request)
        is_refused = FAULT in state or not state.get(RATE_COUNTED, True)
        is_large = len(body) >= BODY_BYTES_PER_CALL
        message = outline_message(body) if is_refused and is_large else read_message(body)
        if isinstance(message, ErrorData):
            error = message.model_dump(exclude_none=True)
            reply = json_response({"jsonrpc": "2.0", "id": None, "error": error}, 400)
            await reply(scope, receive, send)
            return
        refusal = _unchecked_response(request, message)
        if refusal is None and self.pace:
            refusal = await self.pace.rate_limited_mcp_response(request, message)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        tracer = TRACING.tracer
        with tracer.remote(trace_fields(scope["headers"], message)) if tracer else nullcontext():
            await self._answer(request, body, message, send)

    async def _answer(
        self, request: Request, body: bytes, message: Mapping[str, Any], send: ResponseSend
    ) -> None:
        scope, receive = request.scope, request.receive
        direct = self.direct_calls
        call = direct.read(request, message) if direct else None
        if direct is not None and call is not None:
            handling = _answer_directly(request, message, send, direct, call)
        elif refused := await verify_credential(request):
            await (_unchecked_response(request, message) or refused)(scope, receive, send)
            return
        else:
            respond = _with_apps_session(send) if declares_apps(message) else send
            handling = self.manager.handle_request(scope, replay_body(body, receive), respond)
        await (_cancel_on_disconnect(receive, handling) if may_wait(message) else handling)


async def _answer_checked(
    request: Request, direct: DirectCalls, call: DirectCall
) -> bytes | Response:
    """Execute a tool call whose first database query also checks the cached credential.

    Return the body of the answer, or an error response if the credential is not valid.
    """
    cached, body = cached_caller(request), None
    if cached is None:
        return await direct.answer(request, call)
    with cached.checking():
        body = await direct.answer(request, call)
    if cached.check.is_passed and body is not None:
        return body
    if refused := await verify_credential(request):
        return refused
    # The credential is valid, but may now belong to a caller with other rights. Use the answer only
    # if it was made for the same caller.
    is_unchanged = request_state(request).get("caller") == cached.caller
    if body is not None and is_unchanged and not cached.check.is_failed:
        return body
    return await direct.answer(request, call)


def _unchecked_response(request: Request, message: Mapping[str, Any]) -> Response | None:
    """Return an error response if the credential could not be checked, else None."""
    fault: WaybookError | None = request_state(request).get(FAULT)
    return None if fault is None else mcp_error_response(request, message, fault)


async def _answer_directly(
    request: Request,
    message: Mapping[str, Any],
    send: ResponseSend,
    direct: DirectCalls,
    call: DirectCall,
) -> None:
    body = await _answer_checked(request, direct, call)
    if isinstance(body, Response):
        refusal = _unchecked_response(request, message) or body
        await refusal(request.scope, request.receive, send)
    else:
        await send.send_json(body)


async def _cancel_on_disconnect(receive: Receive, handling: Awaitable[None]) -> None:
    """Handle a request, and cancel the handling when the client disconnects.

    Without this, a waiting call could claim a step or job for a disconnected client.
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


def _with_apps_session(send: Send) -> Send:
    async def send_with_header(message: Message) -> None:
        if message["type"] == "http.response.start":
            session = (b"mcp-session-id", APPS_SESSION.encode())
            message = {**message, "headers": [*message["headers"], session]}
        await send(message)

    return send_with_header
