"""Serving HTTP: one socket, one process, a graceful end."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

import uvicorn
import uvloop
from starlette.types import ASGIApp

from waybook.errors import Misconfigured
from waybook.transport.web.heads import BoundedHeadProtocol

BACKLOG: Final = 2048  # connections that may wait to be taken
SWITCH_SECONDS: Final = 0.0005
SHUTDOWN_TIMEOUT_SECONDS: Final = (
    2  # seconds that requests in flight may take after the call to stop
)

T = TypeVar("T")


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; port 0 lets the system choose.

    It names its protocol and sends without delay: asyncio sees to that only for sockets whose
    protocol is named, and a short answer otherwise waits 40 ms for the client's acknowledgement.

    Raises:
        Misconfigured: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise Misconfigured(
            f"Cannot listen on {host}:{port}: {error.strerror}.", host=host, port=port
        ) from error
    return listening


def address(listening: socket.socket) -> str:
    """Where a client finds the socket: `http://127.0.0.1:8750`."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class SignalFreeServer(uvicorn.Server):
    """A server that leaves the process's signals alone.

    The library's own raises the signal again once it is done, and the process then ends before
    anything else, a database for instance, is put away.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def no_shutdown_hook() -> None:
    """For an app whose answers all end by themselves."""


@asynccontextmanager
async def serve_in_background(
    app: ASGIApp, listening: socket.socket, leaving: Callable[[], None] = no_shutdown_hook
) -> AsyncIterator[str]:
    """Serve while inside, and give the address; leaving lets the requests in flight finish.

    `leaving` is called first then, to end the answers that would go on for ever.
    """
    config = uvicorn.Config(
        app,
        http=BoundedHeadProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )
    server = SignalFreeServer(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield address(listening)
    finally:
        leaving()
        server.should_exit = True
        await task


async def serve(
    app: ASGIApp, listening: socket.socket, leaving: Callable[[], None] = no_shutdown_hook
) -> None:
    """Serve until SIGINT or SIGTERM, then end gracefully."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        async with serve_in_background(app, listening, leaving):
            await stop.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def run(main: Coroutine[object, object, T]) -> T:
    """Run to the end on the fast event loop.

    Threads that compute hand the interpreter back ten times as often as by default (every 5 ms), so
    that the loop does not wait for them.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
