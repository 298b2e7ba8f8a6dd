"""Routes of the HTTP application: status codes and answers."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from transport.fake_dispatcher import TOOLS, RecordingDispatcher, make_gateway
from transport.messages import LEGACY, make_request
from waybook.errors import Unavailable
from waybook.transport.http import metrics
from waybook.transport.http.app import build_app
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.mcp.server import build_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


def make_face(
    ready: Callable[[], Awaitable[bool]], stuck: Callable[[], bool] = bool
) -> httpx2.AsyncClient:
    server = build_server(TOOLS, make_gateway(RecordingDispatcher()))
    app = build_app(server, hosts=AllowedHosts(), ready=ready, stuck=stuck)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


async def test_healthz_returns_alive_for_a_live_process(http: httpx2.AsyncClient) -> None:
    reply = await http.get("/healthz")
    assert (reply.status_code, reply.json()) == (200, {"status": "alive"})


async def test_healthz_returns_503_when_the_connection_pool_is_stuck() -> None:
    async def ready() -> bool:
        return True

    async with make_face(ready, stuck=lambda: True) as client:
        reply = await client.get("/healthz")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "UNAVAILABLE")


async def test_readyz_returns_503_when_the_database_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no() -> bool:
        return False

    async def gone() -> bool:
        raise Unavailable

    async def hangs() -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(metrics, "READY_WITHIN", 0)
    for ready in (no, gone, hangs):
        async with make_face(ready) as client:
            reply = await client.get("/readyz")
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "UNAVAILABLE"


async def test_readyz_hides_the_exception_text_of_an_unexpected_error() -> None:
    async def breaks() -> bool:
        raise ZeroDivisionError("password=hunter2")

    async with make_face(breaks) as client:
        reply = await client.get("/readyz")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "UNAVAILABLE"
    assert "hunter2" not in reply.text


async def test_metrics_endpoint_returns_prometheus_text_format(http: httpx2.AsyncClient) -> None:
    reply = await http.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert reply.text == (
        "# HELP waybook_calls_total Calls answered, by tool and outcome "
        "(ok, or the error's code).\n"
        "# TYPE waybook_calls_total counter\n"
        "waybook_calls_total 3\n"
    )


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_mcp_endpoint_accepts_only_post_requests(
    http: httpx2.AsyncClient, method: str, version: str
) -> None:
    headers = {**LEGACY, "mcp-protocol-version": version}
    reply = await http.request(method, "/mcp", headers=headers)
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert reply.json()["error"]["code"] == "INVALID_INPUT"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_mcp_endpoint_returns_json_without_session_id(
    http: httpx2.AsyncClient, path: str
) -> None:
    reply = await http.post(path, headers=LEGACY, content=make_request("tools/list"))
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers
    assert "server" not in reply.headers
    assert len(reply.json()["result"]["tools"]) == len(TOOLS)
