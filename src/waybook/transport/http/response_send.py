"""Responses with security headers. They start only after a cached credential is verified."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Send

from waybook.app.accounts.lookup import CachedCaller
from waybook.errors import Unavailable
from waybook.transport.gateway import request_state
from waybook.transport.http.compression import VARY, CompressingSend, is_plain
from waybook.transport.http.protocol import Exchange
from waybook.transport.http.request_checks import with_security_headers

#: Request state: the cached caller, and the function that verifies the caller's credential.
_CACHED_CALLER: Final = "cached_caller"
_VERIFY: Final = "verify_credential"

_Verifier: TypeAlias = Callable[[Request], Awaitable[Response | None]]


def expect_caller(
    request: Request, cached: CachedCaller, verify: _Verifier, *, admitted_by: object
) -> None:
    state = request.scope.setdefault("state", {})
    state["caller"], state["admitted_by"] = cached.caller, admitted_by
    state[_CACHED_CALLER], state[_VERIFY] = cached, verify


def cached_caller(request: Request) -> CachedCaller | None:
    cached: CachedCaller | None = request_state(request).get(_CACHED_CALLER)
    return cached


def is_verified(request: Request) -> bool:
    cached = cached_caller(request)
    return cached is None or cached.check.is_passed


async def verify_credential(request: Request) -> Response | None:
    """Verify a request's credential, unless a database query has already checked it.

    Return an error response, or None to proceed.
    """
    if is_verified(request):
        return None
    verify: _Verifier = request_state(request)[_VERIFY]
    request.scope["state"][_CACHED_CALLER] = None
    return await verify(request)


_JSON_TYPE: Final = (b"content-type", b"application/json")
#: Header of every response with status 503 that does not set it.
_RETRY_AFTER: Final = (b"retry-after", b"%d" % (Unavailable.retry_after or 0))
_JSON_HEAD: Final = b"".join(
    b"%b: %b\r\n" % header for header in [*with_security_headers([_JSON_TYPE]), VARY]
)


class ResponseSend:
    """ASGI `send` that adds security headers and compresses responses."""

    def __init__(self, send: Send, exchange: Exchange | None, *, accepts_gzip: bool) -> None:
        self._send = CompressingSend(send, accepted=accepts_gzip)
        self._exchange = exchange
        self._accepts_gzip = accepts_gzip
        #: Called when the response starts, so that the org's next request can start.
        self.release: Callable[[], None] | None = None
        #: Request whose credential must be verified before the response starts.
        self.unverified: Request | None = None
        self.is_started = False
        self._is_refused = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.unverified is not None and await self._refuse():
                return
            self.is_started = True
            if self.release is not None:
                # Let the org's next request start now, because an event stream stays open for long.
                self.release()
            headers = with_security_headers(message.get("headers", ()))
            is_unavailable = message["status"] == HTTPStatus.SERVICE_UNAVAILABLE
            if is_unavailable and not any(name == _RETRY_AFTER[0] for name, _ in headers):
                headers.append(_RETRY_AFTER)
            message = {**message, "headers": headers}
        elif self._is_refused:
            return
        await self._send(message)

    async def send_json(self, body: bytes) -> None:
        """Send a JSON response with status 200, in one write if possible."""
        exchange = self._exchange
        if exchange is not None and is_plain(body, accepted=self._accepts_gzip):
            if self.unverified is not None and await self._refuse():
                return
            if exchange.respond(_JSON_HEAD, body):
                self.is_started = True
                if self.release is not None:
                    self.release()
                return
        headers = [(b"content-length", b"%d" % len(body)), _JSON_TYPE]
        await self({"type": "http.response.start", "status": HTTPStatus.OK, "headers": headers})
        await self({"type": "http.response.body", "body": body})

    async def _refuse(self) -> bool:
        """Refuse the request if its credential is not valid. Return whether it was refused."""
        request, self.unverified = self.unverified, None
        if request is None or is_verified(request):
            return False
        refusal = await verify_credential(request)
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
