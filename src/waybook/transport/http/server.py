"""HTTP server: one socket, one process, graceful shutdown."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

import uvicorn
from starlette.types import ASGIApp

from waybook.errors import Misconfigured
from waybook.transport.http.connection import BoundedHeadProtocol

try:
    from uvloop import new_event_loop
# uvloop does not exist on Windows.
except ImportError:
    from asyncio import new_event_loop  # type: ignore[assignment]  # wider

_BACKLOG: Final = 2048
_SWITCH_SECONDS: Final = 0.0005
#: Longer than the 60 seconds after which common proxies close an idle connection. If the server
#: closed it first, a proxy could send a request on a closed connection.
DEFAULT_KEEP_ALIVE_SECONDS: Final = 75
_SHUTDOWN_TIMEOUT_SECONDS: Final = 2

CLOSE_CONNECTION: Final = (b"connection", b"close")

T = TypeVar("T")


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a listening socket. With port 0, the system chooses a port.

    The socket is created with the protocol number of TCP, because asyncio sets TCP_NODELAY only on
    such sockets. Without TCP_NODELAY, a short response could wait 40 ms.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Misconfigured(
            f"Cannot listen on {host}:{port}: {error.strerror}.", host=host, port=port
        ) from error
    return listening


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _SignalFreeServer(uvicorn.Server):
    """HTTP server that does not handle process signals.

    uvicorn's own handler would end the process before the database is closed.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def close_connections_after_responses(self) -> None:
        # Also update the server state's headers: uvicorn copies them from the config only once a
        # second.
        self.config.encoded_headers.append(CLOSE_CONNECTION)
        self.server_state.default_headers.append(CLOSE_CONNECTION)


@dataclass(slots=True)
class Drain:
    """Time for which a stopping server still serves requests, but reports that it is not ready.

    Load balancers need this time to notice that the server is stopping.
    """

    seconds: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def pause(self, seconds: float) -> None:
        """Delay a request, but end the delay when the server is stopping."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.begun.wait()


@asynccontextmanager
async def serve_in_background(
    app: ASGIApp,
    listening: socket.socket,
    leaving: Callable[[], None] = lambda: None,
    *,
    keep_alive: int = DEFAULT_KEEP_ALIVE_SECONDS,
) -> AsyncIterator[str]:
    """Serve within the block, and yield the server's URL.

    At the end, `leaving` is called first, to end responses that would otherwise never end, such as
    event streams.
    """
    async with _running_server(app, listening, leaving, keep_alive):
        yield address(listening)


@asynccontextmanager
async def _running_server(
    app: ASGIApp, listening: socket.socket, leaving: Callable[[], None], keep_alive: int
) -> AsyncIterator[_SignalFreeServer]:
    config = uvicorn.Config(
        app,
        http=BoundedHeadProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_SECONDS,
    )
    server = _SignalFreeServer(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield server
    finally:
        leaving()
        server.should_exit = True
        await task


async def serve(
    app: ASGIApp,
    listening: socket.socket,
    leaving: Callable[[], None] = lambda: None,
    announce: Callable[[], None] = lambda: None,
    *,
    keep_alive: int = DEFAULT_KEEP_ALIVE_SECONDS,
    drain: Drain | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, keep serving for the time of `drain`, then shut down.

    A second signal ends this time immediately.
    """
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        announce()
        async with _running_server(app, listening, leaving, keep_alive) as server:
            await stop.wait()
            if drain is not None:
                drain.begun.set()
            if drain is not None and drain.seconds:
                stop.clear()
                server.close_connections_after_responses()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), drain.seconds)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def run(main: Coroutine[object, object, T]) -> T:
    """Run a coroutine on uvloop, or on asyncio's loop where uvloop does not exist."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
