"""ASGI application: checks of every request, MCP endpoint, REST API, metrics and dashboard.

The checks are plain function calls, because a chain of ASGI apps took a fifth of the CPU time.
"""

import asyncio
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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
from waybook.transport.http.connection import ResponseSend, accepts_gzip, exchange_of
from waybook.transport.http.html.layout import error_page, wants_html
from waybook.transport.http.mcp_endpoint import McpEndpoint
from waybook.transport.http.metrics import Metric, Operations
from waybook.transport.http.rate_limits import (
    BODY_BYTES_PER_CALL,
    RequestThrottle,
    signed_in_caller,
)
from waybook.transport.http.request_checks import (
    BODY_LIMIT,
    HEALTH_PATHS,
    AllowedHosts,
    cross_site_refusal,
    declared_size,
    encoded_body_refusal,
    host_refusal,
    index_headers,
    public_scheme,
    receive_body,
    replay_body,
    strip_headers,
)
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.responses import answer_error_response, error_response, json_response
from waybook.transport.mcp.direct_calls import ToolServer

_MAX_CONCURRENT: Final = 2


class SnapshotApi:
    def __init__(self, pace: RequestThrottle | None = None) -> None:
        self.pace = pace
        self.turns = asyncio.Semaphore(_MAX_CONCURRENT)

    async def report(self, request: Request) -> Response:
        return await self._answer(request, report_from_snapshot)

    async def map(self, request: Request) -> Response:
        return await self._answer(request, map_from_snapshot)

    async def _answer(self, request: Request, read: Callable[[object], object]) -> Response:
        if self.pace and (error := await self.pace.rate_limited_response(request)):
            raise error
        body = await request.body()
        async with self.turns:
            return await asyncio.to_thread(answer_snapshot, body, read)


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


async def _serve_openapi(_: Request) -> Response:
    return Response(load_openapi(), media_type="application/json")


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


def build_app(  # noqa: PLR0913 - one for each part of the application
    server: ToolServer,
    *,
    hosts: AllowedHosts,
    ready: Callable[[], Awaitable[bool]],
    stuck: Callable[[], bool] = bool,
    metrics: Callable[[], Iterable[Metric]] = tuple,
    reporting: frozenset[str] = frozenset(),
    reading: ReadApi | None = None,
    pages: Sequence[Route] = (),
    pace: RequestThrottle | None = None,
    gate: AuthGate | None = None,
) -> ASGIApp:
    """Return the ASGI application. It can be started only once.

    Args:
        server: the tools.
        hosts: allowed host names.
        ready: checks the database.
        stuck: returns whether the process must be restarted.
        metrics: returns the metrics.
        reporting: names of the tools that send progress notifications.
        reading: serves the read API.
        pages: routes of the dashboard.
        pace: throttles orgs that exceed their rate limit.
        gate: authenticates every request.
    """
    mcp, operations = McpEndpoint(server, reporting, pace), Operations(ready, stuck, metrics)
    snapshots = SnapshotApi(pace)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with mcp.running():
            yield

    app = Starlette(
        routes=[
            *pages,
            *(Route(path, mcp) for path in _MCP_PATHS),
            Route("/healthz", operations.healthz),
            Route("/readyz", operations.readyz),
            Route("/metrics", operations.figures),
            Route("/api/openapi.json", _serve_openapi),
            Route("/api/report", snapshots.report, methods=["POST"]),
            Route("/api/map", snapshots.map, methods=["POST"]),
            *(reading.routes() if reading else ()),
        ],
        exception_handlers={
            HTTPException: _known_error,
            WaybookError: _known_error,
            Exception: _internal_error,
        },
        lifespan=running,
    )
    return RequestPipeline(
        app=app,
        hosts=hosts,
        gate=gate,
        pace=pace,
        handlers=dict.fromkeys(_MCP_PATHS, mcp.handle),
        on_error=_internal_error,
    )


#: Maximum number of cached results of header checks, which help because a client sends the same
#: headers with every request. Checks of large headers are not cached.
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
_ErrorHandler: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


_BodyHandler: TypeAlias = Callable[[Request, bytes, ResponseSend], Awaitable[None]]


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
    """ASGI app that checks every request before another app or handler gets it."""

    app: ASGIApp
    hosts: AllowedHosts
    gate: AuthGate | None = None
    pace: RequestThrottle | None = None
    handlers: Mapping[str, _BodyHandler] = field(default_factory=dict)
    on_error: _ErrorHandler | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._check(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self.app(scope, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = strip_headers(scope["headers"])
        own = tuple([header for header in raw if header[0] in CHECKED_HEADERS])
        method, path = scope["method"], scope["path"]
        handler = self.handlers.get(path) if method == "POST" else None
        # Cache only checks for the paths of handlers, because clients can invent any other path.
        is_cached = handler is not None and sum([len(h[1]) for h in own]) <= MAX_CACHED_BYTES
        check = _cached_check if is_cached else check_headers
        checked = check(self.hosts, method, path, scope.get("scheme", "http"), own)
        scope = {
            **scope,
            "headers": raw,
            "scheme": checked.scheme,
            "state": {**scope.get("state", {}), ARRIVED: get_running_loop().time()},
        }
        respond = ResponseSend(send, exchange_of(scope), accepts_gzip=checked.accepts_gzip)
        request, refusal = Request(scope, receive), checked.refusal
        if refusal is None and self.gate is not None:
            refusal = await self.gate.refusal(request)
            respond.unverified = request
        if handler is not None and FAULT in scope["state"]:
            refusal = None
        elif self.gate and self.pace and signed_in_caller(request) is None:
            refusal = await self.pace.anonymous_refusal(request) or refusal
        if refusal is not None:
            await refusal(scope, receive, respond)
        elif self.pace is None:
            await self._handle(request, handler, checked, respond)
        else:
            await self._throttle(self.pace, request, handler, checked, respond)

    async def _throttle(
        self,
        pace: RequestThrottle,
        request: Request,
        handler: _BodyHandler | None,
        checked: CheckedHeaders,
        respond: ResponseSend,
    ) -> None:
        org_id, limiter = await pace.slot_of(request)
        if org_id is None:
            await self._handle(request, handler, checked, respond)
            return
        async with limiter.slot(org_id) as release:
            respond.release = release
            setattr(request.state, RELEASE_SLOT, release)
            await self._handle(request, handler, checked, respond)

    async def _handle(
        self,
        request: Request,
        handler: _BodyHandler | None,
        checked: CheckedHeaders,
        respond: ResponseSend,
    ) -> None:
        scope, receive = request.scope, request.receive
        body: Response | bytes | None = checked.body_refusal
        exchange = exchange_of(scope)
        if body is None and exchange is not None:
            body = exchange.take_body(BODY_LIMIT)
        try:
            if body is None:
                body = await receive_body(declared_size(scope["headers"]), receive, BODY_LIMIT)
        except ClientDisconnect:
            return
        if isinstance(body, Response):
            await body(scope, receive, respond)
            return
        if handler is None:
            await self.app(scope, replay_body(body, receive), respond)
            return
        is_large = len(body) >= BODY_BYTES_PER_CALL
        if self.pace and is_large and declared_size(scope["headers"]) is None:
            await self.pace.admit(request, len(body))
        try:
            await handler(request, body, respond)
        except Exception as error:
            if self.on_error is not None and not respond.is_started:
                response = await self.on_error(request, error)
                await response(scope, receive, respond)
            raise
