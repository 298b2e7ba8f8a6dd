"""The same server over stdin and stdout, for clients that start it themselves.

What a client writes to our stdin, line by line: each is one sound message, or is refused.

The protocol library would read a line of any length into memory, and say nothing to what it cannot
read. Here a line has the size a message may have over HTTP, and whoever writes another hears of it
in the words of that door.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, BinaryIO, Final, cast

import anyio
from anyio import from_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

from waybook.transport.jsonrpc import MESSAGE_LIMIT, InvalidMessage, error_body, id_of, read_message

#: How much of a line that is too long is kept, of its beginning and of its end.
PREVIEW_BYTES: Final = 4096
READ_SIZE: Final = 64 * 1024

ErrorWriter = Callable[[JSONRPCError], None]


def take_stdin() -> BinaryIO:
    """Stdin for us alone: whatever else reads there finds its end.

    The descriptor is never closed, for a thread may be reading it until the process ends.
    """
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(wire, "rb", READ_SIZE, closefd=False)


class MessageLines:
    def __init__(self, wire: BinaryIO, refuse: ErrorWriter) -> None:
        """Read what comes over this wire, and tell what is refused, and why."""
        self._wire = wire
        self._refuse = refuse

    def readline(self) -> str:
        """The next line that holds a message; nothing at the end."""
        while line := self._wire.readline(MESSAGE_LIMIT + 1):
            if not line.endswith(b"\n") and len(line) > MESSAGE_LIMIT:
                self._refuse(_too_long(line[:PREVIEW_BYTES], self._end_of(line)))
            elif isinstance(read := read_message(line), InvalidMessage):
                if not line.isspace():
                    self._refuse(_unsound(read))
            else:
                return line.decode()
        return ""

    def _end_of(self, line: bytes) -> bytes:
        """How a line ends, of which this was the beginning."""
        end = line[-PREVIEW_BYTES:]
        while not end.endswith(b"\n") and (piece := self._wire.readline(READ_SIZE)):
            end = (end + piece)[-PREVIEW_BYTES:]
        return end


def _too_long(beginning: bytes, end: bytes) -> JSONRPCError:
    told = f"A message may have {MESSAGE_LIMIT} bytes; split the work into smaller calls."
    error = ErrorData(
        code=INVALID_REQUEST, message=told, data=error_body("TOO_LARGE", told, limit=MESSAGE_LIMIT)
    )
    return JSONRPCError(jsonrpc="2.0", id=id_of(beginning, end), error=error)


def _unsound(read: InvalidMessage) -> JSONRPCError:
    error = ErrorData(code=read.code, message=read.message)
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


async def serve_stdio(server: Server[None]) -> None:
    """Serve one client until it closes our stdin.

    Meanwhile stdin and stdout belong to the protocol: nobody else reads anything there, and
    whatever else is printed goes to stderr.
    """

    def refuse(error: JSONRPCError) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody listens
            from_thread.run(outgoing.send, SessionMessage(error))

    lines = cast("IO[str]", MessageLines(take_stdin(), refuse))  # of a file it has what is used
    async with stdio_server(anyio.wrap_file(lines)) as (incoming, outgoing):
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            # What was printed and not sent yet would else follow once stdout is given back.
            sys.stdout.flush()
