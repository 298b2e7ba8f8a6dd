"""HTTP request headers: limits on size and time before authentication."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from patience import NOTICE_SECONDS
from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway
from waybook.transport.http import protocol as heads
from waybook.transport.http import request_checks
from waybook.transport.http.app import build_app
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.server import build_server

START = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
#: Data whose size is several times the maximum size of a request head.
MORE = b"x" * 16 * heads.MAX_BYTES


class Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, *parts: bytes) -> None:
        for part in parts:
            self._writer.write(part)

    async def complete(self) -> bytes:
        """Return the first line of the response, or an empty line if the connection is closed."""
        async with asyncio.timeout(NOTICE_SECONDS):
            return await self._reader.readline()

    async def hear_to_the_end(self) -> None:
        async with asyncio.timeout(NOTICE_SECONDS):
            # If the server disconnects a client that is still sending, the client may get a
            # connection error instead of the response.
            with suppress(ConnectionError):
                await self._reader.read()

    async def hang_up(self) -> None:
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the timeout for request headers, for connections opened afterwards."""
    monkeypatch.setattr(heads, "HEAD_TIMEOUT_SECONDS", 0.2)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    server = build_server(TOOLS, make_gateway(RecordingDispatcher()))
    app = build_app(server, hosts=AllowedHosts(), ready=always)
    async with serve_in_background(app, listen("127.0.0.1", 0)) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        line = Line(*await asyncio.open_connection(host, int(port)))
        yield line
        await line.hang_up()


ENDLESS = {
    "an address": (b"GET /" + MORE,),
    "a header's name": (START + b"X" + MORE,),
    "a header": (START + b"X: " + MORE,),
    "many headers": (START + b"".join(b"X-%d: 1\r\n" % n for n in range(1000)),),
    "many large headers": (START + b"".join(b"X-%d: %d\r\n" % (n, 10**999) for n in range(100)),),
    "blank lines": (b"\r\n" * heads.MAX_BYTES,),
    "what stands beside a piece of a body": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1;x=" + MORE,
    ),
    "a header behind a body": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n0\r\nX: " + MORE,
    ),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_connection_is_closed_if_a_request_head_is_endless(line: Line, what: str) -> None:
    line.say(*ENDLESS[what])
    await line.hear_to_the_end()


async def test_request_with_too_many_headers_returns_431(line: Line) -> None:
    line.say(START + b"".join(b"X-%d: 1\r\n" % n for n in range(heads.MAX_HEADERS + 1)))
    assert b" 431 " in await line.complete()


async def test_request_with_50_long_cookies_returns_200(line: Line) -> None:
    cookies = b"; ".join(b"c%d=%s" % (n, b"v" * 900) for n in range(50))
    line.say(START + b"Cookie: " + cookies + b"\r\n\r\n")
    assert b" 200 " in await line.complete()


async def test_large_request_body_is_not_counted_toward_the_head_limit(line: Line) -> None:
    body = MORE[: 4 * heads.MAX_BYTES]
    line.say(POST + b"Content-Length: %d\r\n\r\n" % len(body), body)
    assert b" 405 " in await line.complete()


BEGINNINGS = {
    "nothing": (b"", b""),
    "half a head": (START, b""),
    "a blank line behind an answer": (START + b"\r\n", b"\r\n"),
    "half a head behind an answer": (START + b"\r\n", START),
}


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("what", BEGINNINGS)
async def test_connection_is_closed_if_a_request_head_takes_too_long(line: Line, what: str) -> None:
    first, then = BEGINNINGS[what]
    if first:
        line.say(first)
    if then:
        assert b" 200 " in await line.complete()
        line.say(then)
    await line.hear_to_the_end()


async def test_request_body_that_takes_too_long_returns_408(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_checks, "BODY_SECONDS", 0.1)
    line.say(POST + b"Content-Length: 10\r\n\r\nhalf")
    assert b" 408 " in await line.complete()
