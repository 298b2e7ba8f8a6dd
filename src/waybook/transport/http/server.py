"""Serving HTTP: one socket, one process, a graceful end.

Heads of requests, within bounds: the library takes them of any size, and waits for ever.

Nobody is known yet while a head comes in, so whoever can reach us could fill our memory with one
header that does not end, or keep every connection with a head that is never whole.
"""

import asyncio
import signal
import socket
import sys
from asyncio import TimerHandle, Transport
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

import uvicorn
import uvloop
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from waybook.errors import Misconfigured

#: Address, names and values of all headers together.
MAX_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 200
#: How long a head may take, from the connection or from the last answer on.
HEAD_TIMEOUT_SECONDS: Final = 30.0

TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"content-length: 26\r\n"
    b"connection: close\r\n"
    b"\r\n"
    b"The headers are too large."
)


class HeadTooLarge(Exception):
    """A head goes beyond what one may have."""


class BoundedHeadProtocol(HttpToolsProtocol):
    """One connection, whose heads are small and soon whole."""

    #: What the head has so far.
    _bytes = 0
    _headers = 0
    #: Bytes of which nothing has come yet, neither a head nor a body: the parser keeps them.
    _kept = 0
    _timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as theirs
        """Expect a head from now on."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._kept += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._kept > MAX_BYTES:
            self._refuse()
        elif self.cycle is None or self.cycle.response_complete:
            # What comes behind an answer is the rest of a body that nobody reads, or a new head.
            self._expect()

    def on_message_begin(self) -> None:
        """A head begins; those behind a body, too."""
        super().on_message_begin()
        self._bytes = self._headers = 0

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, whole."""
        self._headers += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._kept = 0
        self._stop_expecting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body, which is bounded elsewhere."""
        self._kept = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All is there."""
        self._kept = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that it is no request; or that it is too much of one."""
        if self._is_too_much():
            self._refuse()
        else:
            super().send_400_response(msg)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._is_too_much():
            raise HeadTooLarge

    def _is_too_much(self) -> bool:
        return self._bytes > MAX_BYTES or self._headers > MAX_HEADERS

    def _refuse(self) -> None:
        self.transport.write(TOO_LARGE)
        self.transport.close()

    def _expect(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_TIMEOUT_SECONDS, self._give_up)

    def _stop_expecting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.close()


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
