"""Checks of every HTTP request, in one pass before the request is routed.

The order is: host and origin, cross-site requests, authentication, rate limit, encoding and size of
the body. Each rule is a function of its own in `request_checks`, `authentication` or `rate_limits`;
here they are called one after the other, because a chain of ASGI apps in front of every call took
a fifth of the CPU time of the call.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from waybook.transport.gateway import RELEASE_SLOT
from waybook.transport.http.authentication import AuthGate
from waybook.transport.http.cached_credential import verify_credential
from waybook.transport.http.compression import CompressingSend, accepts_gzip
from waybook.transport.http.headers import HeaderValues, index_headers, strip_headers
from waybook.transport.http.rate_limits import RequestThrottle
from waybook.transport.http.request_checks import (
    BODY_LIMIT,
    HEALTH_PATHS,
    AllowedHosts,
    cross_site_refusal,
    encoded_body_refusal,
    host_refusal,
    public_scheme,
    receive_body,
    replay_body,
    with_security_headers,
)

#: Function that handles a request whose body has been read; it sends the response.
BodyHandler: TypeAlias = Callable[[Request, bytes, Send], Awaitable[None]]
#: Function that returns the response for an exception that a handler raised.
ErrorHandler: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


class ResponseSend:
    """ASGI `send` function that adds security headers, and compresses for clients with gzip."""

    def __init__(self, send: Send, headers: HeaderValues) -> None:
        """Wrap the function `send` of a request with these headers."""
        self._send = CompressingSend(send, accepted=accepts_gzip(headers))
        #: Function that is called when the response starts, if one is set.
        self.release: Callable[[], None] | None = None
        #: Function that returns the response to send in place of the response that starts, if the
        #: credential of the request is not valid.
        self.verify: Callable[[], Awaitable[Response | None]] | None = None
        self.is_started = False
        self._is_refused = False

    async def __call__(self, message: Message) -> None:
        """Send a message of the response, once the credential of the request is verified."""
        if message["type"] == "http.response.start":
            if self.verify is not None and await self._refuse(self.verify):
                return
            self.is_started = True
            if self.release is not None:
                # The slot is released when the response starts, because an event stream stays open
                # for long.
                self.release()
            headers = with_security_headers(message.get("headers", ()))
            message = {**message, "headers": headers}
        elif self._is_refused:
            return
        await self._send(message)

    async def _refuse(self, verify: Callable[[], Awaitable[Response | None]]) -> bool:
        """Send the refusal of a request whose credential is not valid; return whether it is."""
        self.verify = None
        refusal = await verify()
        if refusal is None:
            return False
        for message in (
            {
                "type": "http.response.start",
                "status": refusal.status_code,
                "headers": refusal.raw_headers,
            },
            {"type": "http.response.body", "body": bytes(refusal.body)},
        ):
            await self(message)
        self._is_refused = True
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPipeline:
    """ASGI app that checks every request before another app or a handler gets it."""

    app: ASGIApp
    hosts: AllowedHosts
    #: Authentication of every request, and rate limits of orgs, if configured.
    gate: AuthGate | None = None
    pace: RequestThrottle | None = None
    #: Handlers of POST requests by path, which are called without the routing of the app.
    handlers: Mapping[str, BodyHandler] = field(default_factory=dict)
    #: Response for an exception of a handler; without it, exceptions have no response here.
    on_error: ErrorHandler | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on; refuse WebSocket connections."""
        if scope["type"] == "http":
            await self._check(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = strip_headers(scope["headers"])
        headers = index_headers(raw)
        scope = {
            **scope,
            "headers": raw,
            "scheme": public_scheme(self.hosts.encrypted, headers, scope.get("scheme", "http")),
            "state": {**scope.get("state", {})},
        }
        respond = ResponseSend(send, headers)
        request = Request(scope, receive)
        any_host = scope["path"] in HEALTH_PATHS
        refusal = host_refusal(self.hosts, headers, any_host=any_host)
        refusal = refusal or cross_site_refusal(scope["method"], headers)
        if refusal is None and self.gate is not None:
            refusal = await self.gate.refusal(request)
            respond.verify = partial(verify_credential, request)
        if refusal is not None:
            await refusal(scope, receive, respond)
        elif self.pace is None:
            await self._handle(request, headers, respond)
        else:
            await self._throttle(self.pace, request, headers, respond)

    async def _throttle(
        self,
        pace: RequestThrottle,
        request: Request,
        headers: HeaderValues,
        respond: ResponseSend,
    ) -> None:
        """Handle a request within the rate limit and in a slot of its org."""
        org_id, limiter = await pace.slot_of(request)
        if org_id is None:
            await self._handle(request, headers, respond)
            return
        async with limiter.slot(org_id) as release:
            respond.release = release
            setattr(request.state, RELEASE_SLOT, release)
            await self._handle(request, headers, respond)

    async def _handle(self, request: Request, headers: HeaderValues, respond: ResponseSend) -> None:
        """Receive the body of a request, and pass the request to its handler."""
        scope, receive = request.scope, request.receive
        refusal = encoded_body_refusal(headers)
        try:
            body = refusal or await receive_body(headers, receive, BODY_LIMIT)
        except ClientDisconnect:
            return
        if isinstance(body, Response):
            await body(scope, receive, respond)
            return
        handler = self.handlers.get(scope["path"]) if scope["method"] == "POST" else None
        if handler is None:
            await self.app(scope, replay_body(body, receive), respond)
            return
        try:
            await handler(request, body, respond)
        except Exception as error:
            if self.on_error is not None and not respond.is_started:
                response = await self.on_error(request, error)
                await response(scope, receive, respond)
            raise
