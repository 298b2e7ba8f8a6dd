"""HTTP server: sockets, shutdown, idle connections, and limits of request heads (URL, headers)."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from patience import NOTICE_SECONDS
from transport.fake_dispatcher import make_app
from transport.fake_dispatcher import serve as serve_app
from waybook.errors import Misconfigured
from waybook.transport.http import app
from waybook.transport.http import connection as heads
from waybook.transport.http.server import Drain, address, listen, run, serve, serve_in_background


def test_listening_on_a_port_in_use_raises_misconfigured() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured) as refusal:
            listen("127.0.0.1", port)
    assert refusal.value.details == {"host": "127.0.0.1", "port": port}
    assert f"Cannot listen on 127.0.0.1:{port}" in refusal.value.message


def test_listening_socket_of_http_server_has_tcp_nodelay() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def make_slow_app(entered: asyncio.Event, go_on: asyncio.Event) -> Starlette:
    async def slow(_: Request) -> PlainTextResponse:
        entered.set()
        await go_on.wait()
        return PlainTextResponse("done")

    return Starlette(routes=[Route("/", slow)])


async def test_shutdown_waits_for_request_in_flight() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    async with httpx2.AsyncClient(trust_env=False) as client:
        async with serve_in_background(
            make_slow_app(entered, go_on), listen("127.0.0.1", 0)
        ) as where:
            reply = asyncio.create_task(client.get(where))
            await entered.wait()
            asyncio.get_running_loop().call_soon(go_on.set)
        assert (await reply).text == "done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_server_stops_on_a_signal_without_ending_the_process(number: signal.Signals) -> None:
    async def main() -> str:
        entered, go_on = asyncio.Event(), asyncio.Event()
        go_on.set()
        listening = listen("127.0.0.1", 0)
        served = asyncio.create_task(serve(make_slow_app(entered, go_on), listening))
        async with httpx2.AsyncClient(trust_env=False) as client:
            await client.get(address(listening))
        os.kill(os.getpid(), number)
        await served
        return "put away"

    assert run(main()) == "put away"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_right_after_announcing_the_address_stops_the_server(number: signal.Signals) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        events.append("started")
        yield
        events.append("ended")

    def announce() -> None:
        # If the server did not handle the signal, the signal would end the test run.
        assert signal.getsignal(number) not in {signal.SIG_DFL, signal.default_int_handler}
        os.kill(os.getpid(), number)

    async def main() -> str:
        app = Starlette(lifespan=lifespan)
        await serve(app, listen("127.0.0.1", 0), announce=announce)
        return "put away"

    assert run(main()) == "put away"
    assert events == ["started", "ended"]


async def test_http_server_ignores_x_forwarded_headers() -> None:
    async def who(request: Request) -> PlainTextResponse:
        assert request.client is not None
        return PlainTextResponse(f"{request.url.scheme} {request.client.host}")

    headers = {"x-forwarded-for": "198.51.100.1", "x-forwarded-proto": "https"}
    app = Starlette(routes=[Route("/", who)])
    async with serve_app(app) as where, httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(where, headers=headers)).text == "http 127.0.0.1"


def test_draining_server_serves_until_a_second_signal() -> None:
    async def main() -> list[tuple[str, str | None]]:
        drain = Drain(seconds=3_600)

        async def state(_: Request) -> PlainTextResponse:
            return PlainTextResponse("draining" if drain.begun.is_set() else "serving")

        listening = listen("127.0.0.1", 0)
        app = Starlette(routes=[Route("/", state)])
        served = asyncio.create_task(serve(app, listening, drain=drain))
        seen = []
        async with httpx2.AsyncClient(trust_env=False) as client:
            for _ in range(2):
                reply = await client.get(address(listening))
                seen.append((reply.text, reply.headers.get("connection")))
                os.kill(os.getpid(), signal.SIGTERM)
                await drain.begun.wait()
        await served
        return seen

    assert run(main()) == [("serving", None), ("draining", "close")]


@pytest.mark.parametrize("seconds", [0, 3_600])
def test_stopping_server_ends_delays_and_answers_the_requests(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> str:
        drain, delayed = Drain(seconds), asyncio.Event()

        async def delay(_: Request) -> PlainTextResponse:
            delayed.set()
            await drain.pause(3_600)
            return PlainTextResponse("answered")

        listening = listen("127.0.0.1", 0)
        app = Starlette(routes=[Route("/", delay)])
        served = asyncio.create_task(serve(app, listening, drain=drain))
        async with httpx2.AsyncClient(trust_env=False) as client:
            reply = asyncio.create_task(client.get(address(listening)))
            await delayed.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            text = (await reply).text
        if seconds:
            os.kill(os.getpid(), signal.SIGTERM)
        await served
        return text

    assert run(main()) == "answered"
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


# Tests of idle connections.


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class AdvancingLoop(asyncio.SelectorEventLoop):
    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def run_advancing(test: Callable[[AdvancingLoop], Awaitable[None]]) -> None:
    """Run a test on an asyncio loop whose clock the test can advance, unlike that of uvloop."""
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
    app = make_app()
    async with serve_app(app, keep_alive=keep_alive) as address:
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

    run_advancing(test)


# Tests of the limits of request heads.


START = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
#: Data much larger than a request head may be.
MORE = b"x" * 16 * heads.MAX_BYTES


class Line:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, *parts: bytes) -> None:
        for part in parts:
            self._writer.write(part)

    async def complete(self) -> bytes:
        """Return the first line of the response, or an empty line if the connection was closed."""
        async with asyncio.timeout(NOTICE_SECONDS):
            return await self._reader.readline()

    async def hear_to_the_end(self) -> None:
        async with asyncio.timeout(NOTICE_SECONDS):
            # If the server closes the connection while the client still sends, reading may fail.
            with suppress(ConnectionError):
                await self._reader.read()

    async def hang_up(self) -> None:
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the timeout for request heads of connections that are opened from now on."""
    monkeypatch.setattr(heads, "HEAD_TIMEOUT_SECONDS", 0.2)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    app = make_app()
    async with serve_app(app) as address:
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
    monkeypatch.setattr(app, "BODY_SECONDS", 0.1)
    line.say(POST + b"Content-Length: 10\r\n\r\nhalf")
    assert b" 408 " in await line.complete()
