"""ASGI application: checks of every request, MCP endpoint, REST API, metrics and dashboard.

The checks are plain function calls, because a chain of ASGI apps took a fifth of the CPU time.
"""

import asyncio
import logging
import re
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Final, NamedTuple, TypeAlias, cast

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import BadRecipe, InvalidInput, WaybookError
from waybook.transport.gateway import ARRIVED, FAULT, RELEASE_SLOT
from waybook.transport.http.authentication import AuthGate
from waybook.transport.http.connection import (
    HeaderValues,
    ResponseSend,
    accepts_gzip,
    declared_size,
    exchange_of,
    index_headers,
    replay_body,
)
from waybook.transport.http.html.layout import error_page, wants_html
from waybook.transport.http.mcp_endpoint import McpEndpoint
from waybook.transport.http.metrics import Metric, Operations
from waybook.transport.http.rate_limits import (
    BODY_BYTES_PER_CALL,
    RequestThrottle,
    signed_in_caller,
)
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.responses import answer_error_response, error_response, json_response
from waybook.transport.jsonrpc import MESSAGE_LIMIT
from waybook.transport.mcp.direct_calls import ToolServer

log = logging.getLogger(__name__)

_MAX_CONCURRENT: Final = 2


def snapshot_routes(pace: RequestThrottle | None) -> list[Route]:
    turns = asyncio.Semaphore(_MAX_CONCURRENT)

    def route(path: str, read: Callable[[object], object]) -> Route:
        async def answer(request: Request) -> Response:
            if pace and (error := await pace.rate_limited_response(request)):
                raise error
            body = await request.body()
            async with turns:
                return await asyncio.to_thread(answer_snapshot, body, read)

        return Route(path, answer, methods=["POST"])

    return [route("/api/report", report_from_snapshot), route("/api/map", map_from_snapshot)]


def answer_snapshot(body: bytes, read: Callable[[object], object]) -> Response:
    try:
        answer = read(read_snapshot(body))
    except BadRecipe as error:
        return json_response(error.as_json(), HTTPStatus.UNPROCESSABLE_ENTITY)
    except WaybookError as error:
        return json_response(error.as_json(), HTTPStatus.BAD_REQUEST)
    return json_response(cast("Mapping[str, object]", answer))


def read_snapshot(body: bytes) -> object:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None


FILE: Final = "openapi.json"
_MCP_PATHS: Final = ("/mcp", "/mcp/")


def load_openapi() -> bytes:
    return files("waybook.transport.http").joinpath(FILE).read_bytes()


ERRORS: Final = {
    HTTPStatus.NOT_FOUND: ("NOT_FOUND", "There is nothing at this address."),
    HTTPStatus.METHOD_NOT_ALLOWED: ("INVALID_INPUT", "This address does not support that method."),
}


async def _known_error(request: Request, error: Exception) -> Response:
    if isinstance(error, WaybookError):
        return answer_error_response(error.as_json())
    if not isinstance(error, HTTPException):
        raise error
    code, message = ERRORS.get(HTTPStatus(error.status_code), ("INVALID_INPUT", "Bad request."))
    if wants_html(request):
        return error_page(request, error.status_code, message)
    return error_response(error.status_code, code, message, error.headers)


async def _internal_error(request: Request, _: Exception) -> Response:
    if wants_html(request):
        return error_page(request, 500, "Internal server error.")
    return error_response(500, "UNAVAILABLE", "Internal server error; try again.")


LOOPBACK: Final = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
_ORIGIN: Final = re.compile(r"(https?)://([^/\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Allowed `Host` headers: loopback names with any port, and the exact values in `names`.

    >>> hosts = AllowedHosts(frozenset({"plans.example.org"}))
    >>> hosts.allow_host("localhost:8750"), hosts.allow_host("plans.example.org")
    (True, True)
    >>> hosts.allow_host("localhost.example.net"), hosts.allow_origin("null", "localhost")
    (False, False)
    """

    names: frozenset[str] = frozenset()
    #: Host name that a proxy serves over https, if there is such a proxy.
    encrypted: str | None = None

    def allow_host(self, host: str) -> bool:
        return LOOPBACK.fullmatch(host) is not None or host.lower() in self.names

    def allow_origin(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` header matches the request's host or an allowed host.

        If a host name is served over https, an http page of that name is another origin.
        """
        matched = _ORIGIN.fullmatch(origin)
        if matched is None:
            return False
        scheme, named = matched[1].lower(), matched[2].lower()
        if named == self.encrypted:
            return scheme == "https"
        return named == host.lower() or named in self.names


#: Paths that are served for every host name, because they reveal nothing.
HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})

BODY_SECONDS: Final = 60.0

# A body slightly over the limit is read before it is refused, because a client that is still
# sending does not read the response.
MAX_DRAINED_BYTES: Final = 8 * MESSAGE_LIMIT


def public_scheme(public_host: str | None, headers: HeaderValues, scheme: str) -> str:
    """Return https for requests to the public host, where a proxy handles TLS."""
    if [name.lower() for name in headers.get(b"host", ())] == [public_host]:
        return "https"
    return scheme


def host_refusal(
    hosts: AllowedHosts, headers: HeaderValues, *, any_host: bool = False
) -> Response | None:
    """Refuse requests for another host name (421) or from another site's page (403).

    With `any_host`, every host name is accepted, because load balancers use the IP address.
    """
    named = headers.get(b"host", ())
    is_ours = len(named) == 1 and hosts.allow_host(named[0])
    if not is_ours and not any_host:
        return error_response(421, "FORBIDDEN", "This server does not answer to that host name.")
    host = named[0] if is_ours else ""
    if not all(hosts.allow_origin(o, host) for o in headers.get(b"origin", ())):
        return error_response(403, "FORBIDDEN", "Requests from that origin are not accepted.")
    return None


def encoded_body_refusal(headers: HeaderValues) -> Response | None:
    """Refuse compressed bodies (415), because they may expand to a very large size."""
    coded = headers.get(b"content-encoding", ())
    if any(value.lower() not in {"", "identity"} for value in coded):
        message = "Compressed request bodies are not supported; send it uncompressed."
        return error_response(415, "INVALID_INPUT", message, {"accept-encoding": "identity"})
    return None


async def receive_body(size: int | None, receive: Receive, limit: int) -> bytes | Response:
    """Return the request body of this declared size, or an error response (413 or 408)."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            heard = (size or 0) <= MAX_DRAINED_BYTES
            body = await read_body(receive, limit) if heard else None
    except TimeoutError:
        closing = {"connection": "close"}
        return error_response(
            408, "INVALID_INPUT", "The request body was not received in time.", closing
        )
    if body is None:
        message = f"A request body may have {limit} bytes; split the work into smaller calls."
        return error_response(413, "TOO_LARGE", message, {"connection": "close"})
    return body


async def read_body(receive: Receive, limit: int) -> bytes | None:
    parts, size, more = [], 0, True
    while more and size <= MAX_DRAINED_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            # An incomplete form must not be processed like a complete form.
            raise ClientDisconnect
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


#: Values of `Sec-Fetch-Site` for requests from our own pages and for typed URLs.
_SAME_SITE: Final = frozenset({"same-origin", "none"})
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


def cross_site_refusal(method: str, headers: HeaderValues) -> Response | None:
    """Refuse requests that a page of another site made the browser send (403)."""
    if is_same_site(method, headers):
        return None
    return error_response(403, "FORBIDDEN", "Requests from pages of other sites are not accepted.")


def is_same_site(method: str, headers: HeaderValues) -> bool:
    """Return whether a request comes from our own site or from a link that a person followed."""
    if _SAME_SITE.issuperset(headers.get(b"sec-fetch-site", ())):
        return True
    return (
        method in SAFE_METHODS
        and headers.get(b"sec-fetch-mode") == ["navigate"]
        and headers.get(b"sec-fetch-dest") == ["document"]
    )


#: Maximum number of cached results of header checks. The cache saves time, because a client sends
#: the same headers with every request. Checks of large headers are not cached.
_MAX_CACHED: Final = 1_024
MAX_CACHED_BYTES: Final = 2_000

CHECKED_HEADERS: Final = frozenset(
    {
        b"accept-encoding",
        b"content-encoding",
        b"host",
        b"origin",
        b"sec-fetch-dest",
        b"sec-fetch-mode",
        b"sec-fetch-site",
    }
)

_RawHeader: TypeAlias = tuple[bytes, bytes]


class CheckedHeaders(NamedTuple):
    refusal: Response | None
    body_refusal: Response | None
    scheme: str
    accepts_gzip: bool


def check_headers(
    hosts: AllowedHosts, method: str, path: str, scheme: str, headers: Iterable[_RawHeader]
) -> CheckedHeaders:
    values = index_headers(headers)
    refusal = host_refusal(hosts, values, any_host=path in HEALTH_PATHS)
    return CheckedHeaders(
        refusal=refusal or cross_site_refusal(method, values),
        body_refusal=encoded_body_refusal(values),
        scheme=public_scheme(hosts.encrypted, values, scheme),
        accepts_gzip=accepts_gzip(values),
    )


_cached_check: Final = lru_cache(maxsize=_MAX_CACHED)(check_headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPipeline:
    """ASGI app that checks every request before another app or the MCP endpoint gets it."""

    app: ASGIApp
    hosts: AllowedHosts
    gate: AuthGate | None = None
    pace: RequestThrottle | None = None
    mcp: McpEndpoint | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._check(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The HTTP parser keeps the whitespace around header values.
        raw = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        own = tuple([header for header in raw if header[0] in CHECKED_HEADERS])
        method, path = scope["method"], scope["path"]
        mcp = self.mcp if method == "POST" and path in _MCP_PATHS else None
        # Cache only checks for MCP paths, because clients can request any number of other paths.
        is_cached = mcp is not None and sum([len(h[1]) for h in own]) <= MAX_CACHED_BYTES
        check = _cached_check if is_cached else check_headers
        checked = check(self.hosts, method, path, scope.get("scheme", "http"), own)
        scope = {
            **scope,
            "headers": raw,
            "scheme": checked.scheme,
            "state": {**scope.get("state", {}), ARRIVED: get_running_loop().time()},
        }
        respond = ResponseSend(send, exchange_of(scope), accepts_gzip=checked.accepts_gzip)
        request = Request(scope, receive)
        try:
            await self._admit(request, mcp, checked, respond)
        except Exception as error:
            if respond.is_started and not respond.is_complete:
                # A response that breaks off must look broken: the server closes the connection.
                raise
            log.exception("a request failed")
            if not respond.is_started:
                # The page does not depend on the credential, which may not be verifiable.
                respond.unverified = None
                await (await _internal_error(request, error))(scope, receive, respond)

    async def _admit(
        self,
        request: Request,
        mcp: McpEndpoint | None,
        checked: CheckedHeaders,
        respond: ResponseSend,
    ) -> None:
        refusal, scope = checked.refusal, request.scope
        if refusal is None and self.gate is not None:
            refusal = await self.gate.refusal(request)
            respond.unverified = request
        if mcp is not None and FAULT in scope["state"]:
            refusal = None
        elif self.gate and self.pace and signed_in_caller(request) is None:
            refusal = await self.pace.anonymous_refusal(request) or refusal
        if refusal is not None:
            await refusal(scope, request.receive, respond)
            return
        org_id, limiter = await self.pace.slot_of(request) if self.pace else (None, None)
        if org_id is None or limiter is None:
            await self._handle(request, mcp, checked.body_refusal, respond)
            return
        async with limiter.slot(org_id) as release:
            respond.release = release
            setattr(request.state, RELEASE_SLOT, release)
            await self._handle(request, mcp, checked.body_refusal, respond)

    async def _handle(
        self,
        request: Request,
        mcp: McpEndpoint | None,
        body: Response | bytes | None,
        respond: ResponseSend,
    ) -> None:
        scope, receive = request.scope, request.receive
        exchange = exchange_of(scope)
        if body is None and exchange is not None:
            body = exchange.take_body(MESSAGE_LIMIT)
        try:
            if body is None:
                body = await receive_body(declared_size(scope["headers"]), receive, MESSAGE_LIMIT)
        except ClientDisconnect:
            return
        if isinstance(body, Response):
            await body(scope, receive, respond)
            return
        if mcp is None:
            await self.app(scope, replay_body(body, receive), respond)
            return
        is_large = len(body) >= BODY_BYTES_PER_CALL
        if self.pace and is_large and declared_size(scope["headers"]) is None:
            await self.pace.admit(request, len(body))
        await mcp.handle(request, body, respond)


def build_app(  # noqa: PLR0913 - one for each part of the application
    server: ToolServer,
    *,
    hosts: AllowedHosts,
    ready: Callable[[], Awaitable[bool]],
    stuck: Callable[[], bool] = bool,
    metrics: Callable[[], Iterable[Metric]] = tuple,
    reading: ReadApi | None = None,
    pages: Sequence[Route] = (),
    pace: RequestThrottle | None = None,
    gate: AuthGate | None = None,
) -> ASGIApp:
    """Return the ASGI application. It can be started only once."""
    mcp, operations = McpEndpoint(server, pace), Operations(ready, stuck, metrics)

    async def openapi(_: Request) -> Response:
        return Response(load_openapi(), media_type="application/json")

    app = Starlette(
        routes=[
            *pages,
            *(Route(path, mcp) for path in _MCP_PATHS),
            Route("/healthz", operations.healthz),
            Route("/readyz", operations.readyz),
            Route("/metrics", operations.figures),
            Route("/api/openapi.json", openapi),
            *snapshot_routes(pace),
            *(reading.routes() if reading else ()),
        ],
        exception_handlers={
            HTTPException: _known_error,
            WaybookError: _known_error,
            Exception: _internal_error,
        },
        lifespan=lambda _: mcp.manager.run(),
    )
    return RequestPipeline(app=app, hosts=hosts, gate=gate, pace=pace, mcp=mcp)
