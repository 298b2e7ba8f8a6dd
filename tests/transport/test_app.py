"""HTTP routes for health, metrics, MCP and snapshots, and checks that precede every route."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from dag_builders import make_chain, make_dag, make_stage, make_step
from dag_evidence import Body, make_job, make_snapshot
from patience import NOTICE_SECONDS, PATIENCE_SECONDS
from report_invariants import check
from transport.fake_dispatcher import TOOLS, make_server
from transport.messages import LEGACY, make_request, modern_headers
from transport.test_http_clients import NOT_JSON, keeps_silent
from waybook.dag.definitions.definition import write_definition
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import Unavailable
from waybook.transport.http import app, metrics
from waybook.transport.http.app import (
    HEALTH_PATHS,
    MAX_DRAINED_BYTES,
    AllowedHosts,
    RequestPipeline,
    build_app,
    read_body,
)
from waybook.transport.http.responses import json_response
from waybook.transport.jsonrpc import MESSAGE_LIMIT

pytestmark = pytest.mark.asyncio(loop_scope="module")


def make_client(
    ready: Callable[[], Awaitable[bool]], stuck: Callable[[], bool] = bool
) -> httpx2.AsyncClient:
    server = make_server()
    app = build_app(server, hosts=AllowedHosts(), ready=ready, stuck=stuck)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


async def test_healthz_returns_alive_for_a_live_process(http: httpx2.AsyncClient) -> None:
    reply = await http.get("/healthz")
    assert (reply.status_code, reply.json()) == (200, {"status": "alive"})


async def test_healthz_returns_503_when_the_connection_pool_is_stuck() -> None:
    async def ready() -> bool:
        return True

    async with make_client(ready, stuck=lambda: True) as client:
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
        async with make_client(ready) as client:
            reply = await client.get("/readyz")
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "UNAVAILABLE"


async def test_readyz_hides_the_exception_text_of_an_unexpected_error() -> None:
    async def breaks() -> bool:
        raise ZeroDivisionError("password=hunter2")

    async with make_client(breaks) as client:
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


# Tests of the checks that precede every route.


ROUTES = ["/", "/mcp", "/healthz", "/readyz", "/metrics", "/api/report", "/api/map", "/nowhere"]


async def exchange(address: str, request: bytes) -> bytes:
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(request)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), NOTICE_SECONDS)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("route", sorted(HEALTH_PATHS))
async def test_health_check_accepts_any_host_name_and_missing_host_header(
    http: httpx2.AsyncClient, address: str, route: str
) -> None:
    for host in ("localhost", "127.0.0.1:1", "evil.example", "localhost:8750@evil.example", ""):
        assert (await http.get(route, headers={"host": host})).status_code == 200, host
        other = {"host": host, "origin": "http://evil.example"}
        assert (await http.get(route, headers=other)).status_code == 403, host
    reply = await exchange(address, f"GET {route} HTTP/1.0\r\n\r\n".encode())
    assert reply.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_whitespace_around_header_values_is_ignored(address: str, version: str) -> None:
    body = make_request("tools/list")
    head = [
        b"POST /mcp HTTP/1.1",
        b"Host: localhost \t",
        b"Origin: http://localhost  ",
        b"Accept: application/json, text/event-stream \t ",
        b"Content-Type: application/json ",
        b"MCP-Protocol-Version: \t" + version.encode() + b" \t ",
        b"Mcp-Method: tools/list  ",
        b"Content-Length: %d " % len(body),
        b"Connection: close",
    ]
    reply = await exchange(address, b"\r\n".join(head) + b"\r\n\r\n" + body)
    assert reply.startswith(b"HTTP/1.1 200 "), reply
    assert b'"tools":[' in reply


def padded(size: int) -> bytes:
    bare = len(make_request("tools/call", name="get_next_step", arguments={"text": ""}))
    return make_request("tools/call", name="get_next_step", arguments={"text": "x" * (size - bare)})


@pytest.mark.parametrize(
    "headers", [LEGACY, modern_headers("tools/call", "get_next_step")], ids=["legacy", "modern"]
)
async def test_request_body_over_a_mebibyte_is_rejected(
    http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    reply = await http.post("/mcp", headers=headers, content=padded(MESSAGE_LIMIT))
    assert reply.status_code == 200
    reply = await http.post("/mcp", headers=headers, content=padded(MESSAGE_LIMIT + 1))
    assert reply.status_code == 413
    assert reply.json() == {
        "error": {
            "code": "TOO_LARGE",
            "message": "A request body may have 1048576 bytes; split the work into smaller calls.",
            "details": {},
            "next": None,
        }
    }


@pytest.mark.parametrize("route", ROUTES)
async def test_chunked_body_over_limit_returns_413_on_every_route(
    http: httpx2.AsyncClient, route: str
) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * (MESSAGE_LIMIT // 4)

    reply = await http.post(route, headers=LEGACY, content=parts())
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "TOO_LARGE")


async def test_huge_content_length_returns_413_before_the_body_is_read(address: str) -> None:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_DRAINED_BYTES + 1}\r\n\r\n"
    )
    reply = await exchange(address, head.encode())
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in reply


async def test_server_stops_reading_an_endless_request_body_at_the_limit() -> None:
    heard = 0

    async def endless() -> dict[str, object]:
        nonlocal heard
        heard += MESSAGE_LIMIT
        return {"type": "http.request", "body": b"x" * MESSAGE_LIMIT, "more_body": True}

    assert await read_body(endless, MESSAGE_LIMIT) is None
    assert heard == MAX_DRAINED_BYTES + MESSAGE_LIMIT


@pytest.mark.parametrize("parts", [[], [b"decision=app"], [b"decision=approve", b"&comment=On"]])
async def test_interrupted_request_is_not_handled_and_gets_no_response(parts: list[bytes]) -> None:
    messages: list[dict[str, object]] = [
        {"type": "http.request", "body": part, "more_body": True} for part in parts
    ]
    messages.append({"type": "http.disconnect"})
    events = list[object]()

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    async def send(message: object) -> None:
        events.append(message)

    async def app(scope: object, receive: object, send: object) -> None:
        events.append((scope, receive, send))

    headers = [(b"host", b"localhost"), (b"content-length", b"100")]
    scope = {"type": "http", "method": "POST", "path": "/decisions", "headers": headers}
    await RequestPipeline(app=app, hosts=AllowedHosts())(scope, receive, send)
    assert events == []


async def test_websocket_connection_is_closed_with_code_1008() -> None:
    sent: list[object] = []

    async def app(*_: object) -> None:
        raise AssertionError

    async def receive() -> dict[str, object]:
        raise AssertionError

    async def send(message: object) -> None:
        sent.append(message)

    await RequestPipeline(app=app, hosts=AllowedHosts())({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("coding", "status"),
    [("gzip", 415), ("br, gzip", 415), ("GZIP", 415), ("x-unheard-of", 415), ("identity", 400)],
)
async def test_compressed_request_body_returns_415_with_code_invalid_input(
    http: httpx2.AsyncClient, coding: str, status: int
) -> None:
    reply = await http.post("/api/map", headers={"content-encoding": coding}, content=b"{}")
    assert reply.status_code == status
    assert reply.json()["error"]["code"] == "INVALID_INPUT"


# Tests of the APIs for reports and maps.


DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write"))
)
SNAPSHOT = make_snapshot(DAG, make_job("thesis", "plan", "completed"), runs={"thesis": ["alpha"]})
BOTH = pytest.mark.parametrize("path", ["/api/report", "/api/map"])


async def test_report_api_computes_the_report_of_a_posted_snapshot(
    http: httpx2.AsyncClient,
) -> None:
    reply = await http.post("/api/report", json=SNAPSHOT)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json() == report_from_snapshot(SNAPSHOT)
    assert check(reply.json()) == []


async def test_map_api_accepts_a_snapshot_or_a_workflow_definition(
    http: httpx2.AsyncClient,
) -> None:
    for body in (SNAPSHOT, write_definition(DAG)):
        reply = await http.post("/api/map", json=body)
        assert (reply.status_code, reply.json()) == (200, map_from_snapshot(body))


async def test_map_api_returns_422_for_a_workflow_with_a_cycle(http: httpx2.AsyncClient) -> None:
    definition: Body = write_definition(DAG)
    definition["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    reply = await http.post("/api/map", json=definition)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (422, "BAD_RECIPE")
    assert error["details"]["fault"] == "cycle"
    report = await http.post("/api/report", json={**SNAPSHOT, "dag": definition})
    assert report.status_code == 200
    assert report.json()["stages"][0]["status"] is None


@BOTH
@pytest.mark.parametrize("name", NOT_JSON)
async def test_report_and_map_apis_return_400_for_invalid_json(
    http: httpx2.AsyncClient, path: str, name: str
) -> None:
    reply = await http.post(path, content=NOT_JSON[name])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")
    assert keeps_silent(reply)


@BOTH
@pytest.mark.parametrize("body", [None, 1, "dag", [], {}, {"dag": []}], ids=str)
async def test_report_and_map_apis_return_400_for_an_invalid_snapshot(
    http: httpx2.AsyncClient, path: str, body: object
) -> None:
    reply = await http.post(path, json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


@BOTH
async def test_report_and_map_apis_return_405_for_get_requests(
    http: httpx2.AsyncClient, path: str
) -> None:
    reply = await http.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (405, "INVALID_INPUT")


async def test_server_answers_other_requests_while_processing_a_snapshot(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    begun, go_on = asyncio.Event(), asyncio.Event()

    def slow(_: bytes, __: object) -> Any:  # noqa: ANN401 - a response
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(PATIENCE_SECONDS)
        return json_response({"slow": True})

    monkeypatch.setattr(app, "answer_snapshot", slow)
    reply = asyncio.create_task(http.post("/api/report", content=json.dumps(SNAPSHOT)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await begun.wait()
        assert (await http.get("/healthz")).status_code == 200
        go_on.set()
        assert (await reply).json() == {"slow": True}
