"""ASGI application: MCP endpoint, REST API, health checks, metrics and dashboard."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from waybook.transport.http.authentication import AuthGate
from waybook.transport.http.html.error_pages import error_page, wants_html
from waybook.transport.http.mcp_endpoint import McpEndpoint
from waybook.transport.http.metric_families import Metric
from waybook.transport.http.metrics import Operations
from waybook.transport.http.pipeline import RequestPipeline
from waybook.transport.http.rate_limits import RequestThrottle
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.responses import error_response
from waybook.transport.http.snapshots import SnapshotApi
from waybook.transport.mcp.direct_calls import ToolServer

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


async def _internal_error(request: Request, _: Exception) -> Response:
    if wants_html(request):
        return error_page(request, 500, "Internal server error.")
    return error_response(500, "UNAVAILABLE", "Internal server error; try again.")


def build_app(  # noqa: PLR0913 - one for each part of the face
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
        stuck: says whether only a restart would help.
        metrics: returns the metrics.
        reporting: names the tools that send progress notifications.
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
