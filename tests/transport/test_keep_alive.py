"""Idle HTTP connections stay open between calls, and are closed after the configured time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from patience import NOTICE_SECONDS
from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway
from waybook.transport.http.app import build_app
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.server import build_server

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class AdvancingLoop(asyncio.SelectorEventLoop):
    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def run(test: Callable[[AdvancingLoop], Awaitable[None]]) -> None:
    """Run a test on a separate asyncio loop, because the clock of uvloop cannot be replaced."""
    loop = AdvancingLoop()

    async def within() -> None:
        await test(loop)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(within())


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def status_of_request(self) -> bytes:
        self._writer.write(REQUEST)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await self.reader.readexactly(int(size))
        return head.partition(b"\r\n")[0]


@asynccontextmanager
async def connected(keep_alive: int) -> AsyncIterator[Connection]:
    server = build_server(TOOLS, make_gateway(RecordingDispatcher()))
    app = build_app(server, hosts=AllowedHosts(), ready=always)
    async with serve_in_background(app, listen("127.0.0.1", 0), keep_alive=keep_alive) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        yield Connection(reader, writer)
        writer.close()


def test_idle_connection_is_reused_until_keep_alive_time_has_passed() -> None:
    async def test(loop: AdvancingLoop) -> None:
        async with connected(20) as connection:
            assert b" 200 " in await connection.status_of_request()
            loop.ahead = 15
            assert b" 200 " in await connection.status_of_request()
            loop.ahead += 25
            async with asyncio.timeout(NOTICE_SECONDS):
                assert await connection.reader.read() == b""

    run(test)
