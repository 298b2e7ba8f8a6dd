"""HTTP serving: sockets, addresses, and graceful shutdown."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from waybook.errors import Misconfigured
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
        # The signal would end the tests if it were not handled.
        assert signal.getsignal(number) not in {signal.SIG_DFL, signal.default_int_handler}
        os.kill(os.getpid(), number)

    async def main() -> str:
        app = Starlette(lifespan=lifespan)
        await serve(app, listen("127.0.0.1", 0), announce=announce)
        return "put away"

    assert run(main()) == "put away"
    assert events == ["started", "ended"]


async def test_server_ignores_forwarded_headers() -> None:
    async def who(request: Request) -> PlainTextResponse:
        assert request.client is not None
        return PlainTextResponse(f"{request.url.scheme} {request.client.host}")

    headers = {"x-forwarded-for": "198.51.100.1", "x-forwarded-proto": "https"}
    app = Starlette(routes=[Route("/", who)])
    async with (
        serve_in_background(app, listen("127.0.0.1", 0)) as where,
        httpx2.AsyncClient(trust_env=False) as client,
    ):
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
def test_stopping_server_answers_delayed_requests(
    seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    """If the request were delayed until the shutdown times out, uvicorn would cancel it."""

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
