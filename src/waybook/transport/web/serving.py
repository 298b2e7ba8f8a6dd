"""Serving HTTP: one socket, one process, a graceful end."""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Final, TypeVar

import uvicorn
import uvloop
from starlette.types import ASGIApp

from waybook.errors import Misconfigured

PATIENCE: Final = 10  # seconds that requests in flight may take after the signal to stop

T = TypeVar("T")


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; port 0 lets the system choose.

    Raises:
        Misconfigured: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Misconfigured(
            f"Cannot listen on {host}:{port}: {error.strerror}.", host=host, port=port
        ) from error


async def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then let the requests in flight finish."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    await uvicorn.Server(config).serve(sockets=[listening])


def run(main: Coroutine[object, object, T]) -> T:
    """Run to the end on the fast event loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
