"""ASGI application: MCP endpoint, REST API, health checks, metrics and dashboard."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from typing import Final, cast

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import BadRecipe, InvalidInput, WaybookError
from waybook.transport.http.authentication import AuthGate
from waybook.transport.http.html.layout import error_page, wants_html
from waybook.transport.http.mcp_endpoint import McpEndpoint
from waybook.transport.http.metrics import Metric, Operations
from waybook.transport.http.pipeline import RequestPipeline
from waybook.transport.http.rate_limits import RequestThrottle
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.requests import ReadApi, answer_error_response
from waybook.transport.http.responses import error_response, json_response
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


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code, message = ERRORS.get(HTTPStatus(error.status_code), ("INVALID_INPUT", "Bad request."))
    if wants_html(request):
        return error_page(request, error.status_code, message)
    return error_response(error.status_code, code, message, error.headers)


async def _refusal(_: Request, error: Exception) -> Response:
    if not isinstance(error, WaybookError):
        raise error
    return answer_error_response(error.as_json())


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
            HTTPException: _http_error,
            WaybookError: _refusal,
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
