"""Checks of every request before its route: host, origin, body size and whitespace."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx2
import pytest

from patience import NOTICE_SECONDS
from transport.messages import LEGACY, make_request, modern_headers
from waybook.transport.http.pipeline import RequestPipeline
from waybook.transport.http.request_checks import (
    BODY_LIMIT,
    HEALTH_PATHS,
    MAX_DRAINED_BYTES,
    AllowedHosts,
    read_body,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Routes that answer only to the host names of the server.
ROUTES_FOR_OWN_HOSTS = ["/", "/mcp", "/metrics", "/api/report", "/api/map", "/nowhere"]
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


@pytest.mark.parametrize("route", ROUTES_FOR_OWN_HOSTS)
async def test_missing_or_duplicate_host_header_returns_421(address: str, route: str) -> None:
    for hosts in ("", "Host: localhost\r\nHost: evil.example\r\n"):
        head = f"GET {route} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"
        reply = await exchange(address, head.encode())
        assert reply.startswith(b"HTTP/1.1 421 "), hosts


async def test_second_origin_header_of_another_site_returns_403(address: str) -> None:
    origins = "Origin: http://localhost\r\nOrigin: http://evil.example\r\n"
    head = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{origins}Connection: close\r\n\r\n"
    assert (await exchange(address, head.encode())).startswith(b"HTTP/1.1 403 ")


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
    reply = await http.post("/mcp", headers=headers, content=padded(BODY_LIMIT))
    assert reply.status_code == 200
    reply = await http.post("/mcp", headers=headers, content=padded(BODY_LIMIT + 1))
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
            yield b"x" * (BODY_LIMIT // 4)

    reply = await http.post(route, headers=LEGACY, content=parts())
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "TOO_LARGE")


async def test_huge_content_length_returns_413_before_reading(address: str) -> None:
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_DRAINED_BYTES + 1}\r\n\r\n"
    )
    reply = await exchange(address, head.encode())
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in reply


async def test_reading_of_an_endless_request_body_stops_at_a_maximum() -> None:
    heard = 0

    async def endless() -> dict[str, object]:
        nonlocal heard
        heard += BODY_LIMIT
        return {"type": "http.request", "body": b"x" * BODY_LIMIT, "more_body": True}

    assert await read_body(endless, BODY_LIMIT) is None
    assert heard == MAX_DRAINED_BYTES + BODY_LIMIT


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


@pytest.mark.parametrize("coding", ["gzip", "br, gzip", "GZIP", "x-unheard-of"])
async def test_compressed_request_body_returns_415_with_code_invalid_input(
    http: httpx2.AsyncClient, coding: str
) -> None:
    reply = await http.post("/api/map", headers={"content-encoding": coding}, content=b"{}")
    assert reply.status_code == 415
    assert reply.json()["error"]["code"] == "INVALID_INPUT"


async def test_request_body_with_identity_content_encoding_is_accepted(
    http: httpx2.AsyncClient,
) -> None:
    reply = await http.post("/api/map", headers={"content-encoding": "identity"}, content=b"{}")
    assert reply.status_code == 400
