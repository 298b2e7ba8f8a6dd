"""Tool calls over HTTP: the server sends each response in a single write."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from transport.fake_dispatcher import RecordingDispatcher, make_app, make_server
from transport.messages import LEGACY
from waybook.app.request.caller import Answer
from waybook.transport.http.app import CHECKED_HEADERS, AllowedHosts, CheckedHeaders, check_headers
from waybook.transport.http.connection import MIN_BYTES, BoundedHeadProtocol
from waybook.transport.http.server import CLOSE_CONNECTION

DATE = (b"date", b"Tue, 17 Nov 2026 19:05:03 GMT")


class RecordingTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Line:
    """Simulated connection of a client to the HTTP server."""

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        server = make_server(RecordingDispatcher(answers or {}))
        app = make_app(server)
        config = uvicorn.Config(app, http=BoundedHeadProtocol, lifespan="off", log_config=None)
        config.load()
        self.state = ServerState()
        self.state.default_headers = [DATE]
        self.transport = RecordingTransport()
        self.protocol = BoundedHeadProtocol(config, self.state, {})
        self.protocol.connection_made(self.transport)

    async def send(self, *parts: bytes) -> list[bytes]:
        for part in parts:
            self.protocol.data_received(part)
            await asyncio.sleep(0)
        while self.state.tasks:
            await asyncio.wait(self.state.tasks)
        return self.transport.writes


def request(identity: int = 1, size: int = 0, headers: Mapping[str, str] | None = None) -> bytes:
    arguments = {"planId": "9y79wg3e8x", **({"sessionId": "x" * size} if size else {})}
    params = {"name": "get_next_step", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": params}
    body = json.dumps(message)
    all_headers = {
        "host": "localhost",
        "content-length": str(len(body)),
        **LEGACY,
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"POST /mcp HTTP/1.1\r\n{lines}\r\n{body}".encode()


def read_response(response: bytes) -> tuple[bytes, set[bytes], dict[str, Any]]:
    head, _, body = response.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    assert len({*lines}) == len(lines)
    return status, {*lines}, json.loads(body)


async def test_server_sends_tool_call_response_in_a_single_write() -> None:
    writes = await Line().send(request())
    assert len(writes) == 1
    status, lines, message = read_response(writes[0])
    assert status == b"HTTP/1.1 200 OK"
    assert b": ".join(DATE) in lines
    assert message["id"] == 1


async def test_response_in_a_single_write_equals_response_in_two_writes() -> None:
    at_once = await Line().send(request())
    in_parts = await Line().send(request(headers={"connection": "close"}))
    assert (len(at_once), len(in_parts)) == (1, 2)
    status, lines, message = read_response(b"".join(at_once))
    assert read_response(b"".join(in_parts)) == (status, {*lines, b"connection: close"}, message)


async def test_draining_server_closes_the_connection_after_the_answer() -> None:
    line = Line()
    line.state.default_headers = [DATE, CLOSE_CONNECTION]
    _, lines, _ = read_response(b"".join(await line.send(request())))
    assert b"connection: close" in lines
    assert line.transport.closed


async def test_request_arriving_in_several_parts_is_answered() -> None:
    complete = request()
    head, _, body = complete.partition(b"\r\n\r\n")
    writes = await Line().send(head + b"\r\n\r\n", body[:10], body[10:])
    assert len(writes) == 1
    assert writes == await Line().send(complete)


async def test_pipelined_requests_are_answered_in_the_order_received() -> None:
    writes = await Line().send(b"".join(request(identity) for identity in (1, 2, 3)))
    assert [read_response(write)[2]["id"] for write in writes] == [1, 2, 3]


async def test_server_pauses_an_answer_until_the_client_reads() -> None:
    line = Line()
    line.protocol.pause_writing()
    line.protocol.data_received(request())
    (task,) = line.state.tasks
    for _ in range(100):
        await asyncio.sleep(0)
    assert not task.done()
    assert not line.transport.writes
    line.protocol.resume_writing()
    assert b'"id":1' in b"".join(await line.send())


@pytest.mark.parametrize(("accepted", "expected"), [("gzip", [b"gzip"]), ("identity", [])])
async def test_large_answer_is_compressed_if_the_client_accepts_gzip(
    accepted: str, expected: list[bytes]
) -> None:
    line = Line({"get_next_step": Answer({"text": "x" * MIN_BYTES})})
    sent = request(headers={"accept-encoding": accepted})
    head = b"".join(await line.send(sent)).partition(b"\r\n\r\n")[0]
    lines = [line.partition(b": ") for line in head.split(b"\r\n")]
    assert [value for name, _, value in lines if name == b"content-encoding"] == expected
    assert (b"vary", b": ", b"accept-encoding") in lines


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "example.net"}, b"421"),
        ({"origin": "http://example.net"}, b"403"),
        ({"sec-fetch-site": "cross-site"}, b"403"),
        ({"content-encoding": "gzip"}, b"415"),
    ],
)
async def test_invalid_request_header_is_refused_on_a_reused_connection(
    headers: dict[str, str], status: bytes
) -> None:
    line = Line()
    await line.send(request())
    writes = await line.send(request(headers=headers))
    assert writes[1].split()[1] == status
    assert (await line.send(request()))[-1].startswith(b"HTTP/1.1 200 ")


NAMES = st.sampled_from([*sorted(CHECKED_HEADERS), b"cookie", b"accept", b"authorization"])
VALUES = st.sampled_from(
    b"localhost example.net http://localhost https://example.net none cross-site navigate document "
    b"gzip identity".split()
)


def outcome(checked: CheckedHeaders) -> tuple[object, ...]:
    refusals = [r and (r.status_code, r.body) for r in (checked.refusal, checked.body_refusal)]
    return *refusals, checked.scheme, checked.accepts_gzip


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.sampled_from(["GET", "POST"]))
def test_header_checks_ignore_headers_that_are_not_in_checked_headers(
    headers: list[tuple[bytes, bytes]], method: str
) -> None:
    hosts = AllowedHosts(frozenset({"example.net"}), "example.net")
    own = [header for header in headers if header[0] in CHECKED_HEADERS]
    complete, part = (check_headers(hosts, method, "/mcp", "http", h) for h in (headers, own))
    assert outcome(complete) == outcome(part)
