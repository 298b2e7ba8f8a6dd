"""HTTP connections: limits on request headers, and compressed responses with security headers.

Without the limits, any client could exhaust memory with an endless header, or occupy every
connection.

The server may process a request before it has verified the cached credential, but it starts the
response only after the check. It flushes a streamed response after every chunk.

The size of a compressed page can reveal a secret in it (the BREACH attack), so the CSRF token is
masked differently in every response.
"""

import asyncio
import re
import zlib
from asyncio import TimerHandle, Transport
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from waybook.app.accounts.authentication import CachedCaller
from waybook.errors import Unavailable
from waybook.transport.gateway import request_state

MAX_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 200
#: Time limit for receiving the URL and headers of a request.
HEAD_TIMEOUT_SECONDS: Final = 30.0

TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"content-length: 26\r\n"
    b"connection: close\r\n"
    b"\r\n"
    b"The headers are too large."
)

#: Name of the ASGI extension that holds the `Exchange` of a request.
_EXCHANGE: Final = "waybook.exchange"
_HEAD: Final = b"HTTP/1.1 200 OK\r\n%b: %b\r\ncontent-length: %d\r\n"


class _HeadTooLarge(Exception):
    """Error: the URL and headers of a request exceed their limits."""


class Exchange:
    """Reads the whole body of a request at once, and writes the whole response at once."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def take_body(self, limit: int) -> bytes | None:
        """Return the request body if it was fully received and is within the limit."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.response_complete:
            return None
        if len(cycle.body) > limit:
            return None
        cycle.flow.resume_reading()
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def respond(self, head: bytes, body: bytes) -> bool:
        """Send a response with status 200 in one write. Return whether it was sent."""
        cycle = self._cycle
        if cycle.response_started or cycle.disconnected or not cycle.keep_alive:
            return False
        # A second default header means that the server is stopping and closes its connections.
        if cycle.flow.write_paused or len(cycle.default_headers) != 1:
            return False
        ((name, value),) = cycle.default_headers
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(_HEAD % (name, value, len(body)) + head + b"\r\n" + body)
        cycle.message_event.set()
        cycle.on_response()
        return True


def exchange_of(scope: Scope) -> Exchange | None:
    extensions = scope.get("extensions")
    exchange: Exchange | None = extensions.get(_EXCHANGE) if extensions else None
    return exchange


class BoundedHeadProtocol(HttpToolsProtocol):
    """HTTP connection that limits the size of request headers and the time to send them."""

    _bytes = 0
    _headers = 0
    _buffered = 0
    _timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # narrower than in the base class
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received data, and refuse the request if its headers are too large."""
        self._buffered += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._buffered > MAX_BYTES:
            self._refuse()
        elif self.cycle is None or self.cycle.response_complete:
            # Limit the time for the URL and headers of the next request.
            self._expect()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._bytes = self._headers = 0

    def on_url(self, url: bytes) -> None:
        self._bytes += len(url)
        if self._is_too_much():
            raise _HeadTooLarge
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        self._bytes += len(name) + len(value)
        if self._is_too_much():
            raise _HeadTooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._buffered = 0
        self._stop_expecting()
        super().on_headers_complete()
        if self.cycle is not None and self.cycle.scope is self.scope:
            self.scope["extensions"] = {_EXCHANGE: Exchange(self.cycle)}  # type: ignore[dict-item]  # not JSON

    def on_body(self, body: bytes) -> None:
        self._buffered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._buffered = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._is_too_much():
            self._refuse()
        else:
            super().send_400_response(msg)

    def _is_too_much(self) -> bool:
        return self._bytes > MAX_BYTES or self._headers > MAX_HEADERS

    def _refuse(self) -> None:
        self.transport.write(TOO_LARGE)
        self.transport.close()

    def _expect(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self._give_up)

    def _stop_expecting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.close()


HeaderValues: TypeAlias = Mapping[bytes, Sequence[str]]


def index_headers(headers: Iterable[tuple[bytes, bytes]]) -> HeaderValues:
    values: dict[bytes, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value.decode("latin-1"))
    return values


def declared_size(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the size of the body that the headers declare, or None without a valid size.

    >>> declared_size([(b"content-length", b"12")]), declared_size([(b"content-length", b"?")])
    (12, None)
    """
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None


def replay_body(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_SECURITY: Final = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    own = [*headers]
    known = {name.lower() for name, _ in own}
    return own + [header for header in _SECURITY if header[0] not in known]


#: Event streams (`text/event-stream`) are not compressed.
_COMPRESSIBLE: Final = frozenset(
    {
        "application/json",
        "application/problem+json",
        "application/x-ndjson",
        "image/svg+xml",
        "text/css",
        "text/csv",
        "text/html",
        "text/javascript",
        "text/markdown",
        "text/plain",
    }
)
#: Smaller responses fit into one network packet and are not compressed.
MIN_BYTES: Final = 1_200
#: Responses from this size are compressed in a thread, because compression takes over 5 ms.
MIN_THREAD_BYTES: Final = 256 * 1024
_LEVEL: Final = 6
GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
#: Statuses of responses without a complete body, which are not compressed.
_NOT_COMPRESSED: Final = frozenset({204, 206, 304})

_CODING: Final = re.compile(r"\s*([\w*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?")

_RawHeaders = Iterable[tuple[bytes, bytes]]
VARY: Final = (b"vary", b"accept-encoding")


def gzip_text(body: bytes, level: int = _LEVEL) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, GZIP_FORMAT)
    return packer.compress(body) + packer.flush()


def accepts_gzip(headers: HeaderValues) -> bool:
    """Return whether the `Accept-Encoding` headers of a request allow gzip.

    >>> accepts_gzip({b"accept-encoding": ["br, gzip;q=0.5"]})
    True
    >>> accepts_gzip({b"accept-encoding": ["gzip;q=0, *"]}), accepts_gzip({})
    (False, False)
    """
    values = headers.get(b"accept-encoding", ())
    weights: dict[str, float] = {}
    for coding in ",".join(values).split(","):
        if matched := _CODING.fullmatch(coding):
            weights[matched[1].lower()] = float(matched[2] or 1)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _pack(packer: "zlib._Compress", chunk: bytes, *, more: bool) -> bytes:
    """Compress and flush a chunk, so that the client can read it immediately."""
    return packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)


def _is_compressible(status: int, headers: _RawHeaders) -> bool:
    known = {name.lower(): value for name, value in headers}
    kind = known.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    return (
        status not in _NOT_COMPRESSED
        and kind in _COMPRESSIBLE
        and b"content-encoding" not in known
        and b"no-transform" not in known.get(b"cache-control", b"")
    )


def _with_vary(headers: _RawHeaders) -> list[tuple[bytes, bytes]]:
    vary = [value for name, value in headers if name.lower() == b"vary"]
    others = [(name, value) for name, value in headers if name.lower() != b"vary"]
    return [*others, (b"vary", b", ".join([*vary, b"accept-encoding"]))]


#: Keys in the request's state for the cached caller, and for the function that verifies the
#: caller's credential.
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
    """Verify a credential that no query has checked yet. Return an error response, or None."""
    if is_verified(request):
        return None
    verify: _Verifier = request_state(request)[_VERIFY]
    request.scope["state"][_CACHED_CALLER] = None
    return await verify(request)


_JSON_TYPE: Final = (b"content-type", b"application/json")
#: `Retry-After` header, which is added to a response with status 503 that lacks this header.
_RETRY_AFTER: Final = (b"retry-after", b"%d" % (Unavailable.retry_after or 0))
_JSON_HEAD: Final = b"".join(
    b"%b: %b\r\n" % header for header in [*with_security_headers([_JSON_TYPE]), VARY]
)


class ResponseSend:
    """ASGI `send` that adds security headers, and compresses a response that is not small."""

    def __init__(self, send: Send, exchange: Exchange | None, *, accepts_gzip: bool) -> None:
        self._send = send
        self._exchange = exchange
        self._accepts_gzip = accepts_gzip
        #: Start of a response, kept until the first part of the body shows whether it is small.
        self._start: Message | None = None
        self._packer: zlib._Compress | None = None
        #: Called when the response starts, so that the org's next request can start.
        self.release: Callable[[], None] | None = None
        #: Request whose credential must be verified before the response starts.
        self.unverified: Request | None = None
        self.is_started = self.is_complete = False
        self._is_refused = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self.unverified is not None and await self._refuse():
                return
            self._begin()
            headers = with_security_headers(message.get("headers", ()))
            is_unavailable = message["status"] == HTTPStatus.SERVICE_UNAVAILABLE
            if is_unavailable and not any(name == _RETRY_AFTER[0] for name, _ in headers):
                headers.append(_RETRY_AFTER)
            is_compressible = _is_compressible(message["status"], headers)
            message = {**message, "headers": _with_vary(headers) if is_compressible else headers}
            if is_compressible and self._accepts_gzip:
                self._start = message
                return
        elif self._is_refused:
            return
        elif message["type"] == "http.response.body":
            message = await self._compress(message)
            self.is_complete = not message.get("more_body", False)
        await self._send(message)

    def _begin(self) -> None:
        self.is_started = True
        if self.release is not None:
            # Let the org's next request start now, because an event stream stays open for long.
            self.release()

    async def _compress(self, message: Message) -> Message:
        """Send the start of the response if it was kept back. Return the body part to send."""
        chunk, more = message.get("body", b""), message.get("more_body", False)
        start, self._start = self._start, None
        if start is not None and (more or len(chunk) >= MIN_BYTES):
            self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, GZIP_FORMAT)
            encoded = [(n, v) for n, v in start["headers"] if n.lower() != b"content-length"]
            start["headers"] = [*encoded, (b"content-encoding", b"gzip")]
        if self._packer is not None:
            pack = partial(_pack, self._packer, chunk, more=more)
            chunk = await asyncio.to_thread(pack) if len(chunk) >= MIN_THREAD_BYTES else pack()
            if start is not None and not more:
                start["headers"].append((b"content-length", b"%d" % len(chunk)))
        if start is not None:
            await self._send(start)
        return {**message, "body": chunk}

    async def send_json(self, body: bytes) -> None:
        """Send a JSON response with status 200, in one write if possible."""
        exchange = self._exchange
        if exchange is not None and (not self._accepts_gzip or len(body) < MIN_BYTES):
            if self.unverified is not None and await self._refuse():
                return
            if exchange.respond(_JSON_HEAD, body):
                self._begin()
                self.is_complete = True
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
        await refusal(request.scope, request.receive, self)
        self._is_refused = True
        return True
