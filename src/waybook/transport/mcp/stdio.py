"""MCP over stdin and stdout, for MCP clients that start the server as a subprocess.

The MCP library alone would read a line of any length into memory, and would not answer a line that
it cannot parse. This module limits a line to the maximum size of an HTTP message, and answers an
invalid line with the same error as over HTTP.
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

#: Number of bytes of an oversized line that are kept from its start, and number that are kept from
#: its end.
PREVIEW_BYTES: Final = 4096
READ_SIZE: Final = 64 * 1024

ErrorWriter = Callable[[JSONRPCError], None]


def take_stdin() -> BinaryIO:
    """Return stdin for exclusive use; other readers in this process get the end of the file.

    The descriptor is never closed, because a thread may be reading it until the process ends.
    """
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(wire, "rb", READ_SIZE, closefd=False)


class MessageLines:
    def __init__(self, wire: BinaryIO, refuse: ErrorWriter) -> None:
        """Create a reader of lines from `wire`; it passes errors of invalid lines to `refuse`."""
        self._wire = wire
        self._refuse = refuse

    def readline(self) -> str:
        """Return the next line with a valid message, or an empty text at end of input."""
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
        """Discard the rest of an oversized input line and return its last bytes."""
        end = line[-PREVIEW_BYTES:]
        while not end.endswith(b"\n") and (piece := self._wire.readline(READ_SIZE)):
            end = (end + piece)[-PREVIEW_BYTES:]
        return end


def _too_long(beginning: bytes, end: bytes) -> JSONRPCError:
    message = f"A message may have {MESSAGE_LIMIT} bytes; split the work into smaller calls."
    error = ErrorData(
        code=INVALID_REQUEST,
        message=message,
        data=error_body("TOO_LARGE", message, limit=MESSAGE_LIMIT),
    )
    return JSONRPCError(jsonrpc="2.0", id=id_of(beginning, end), error=error)


def _unsound(read: InvalidMessage) -> JSONRPCError:
    error = ErrorData(code=read.code, message=read.message)
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


async def serve_stdio(server: Server[None]) -> None:
    """Serve one MCP client until it closes stdin.

    While the client is served, stdin and stdout are reserved for MCP: other readers get end of
    file, and other output goes to stderr.
    """

    def refuse(error: JSONRPCError) -> None:
        # The client has disconnected.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            from_thread.run(outgoing.send, SessionMessage(error))

    # `MessageLines` has every method of a file that `stdio_server` uses.
    lines = cast("IO[str]", MessageLines(take_stdin(), refuse))
    async with stdio_server(anyio.wrap_file(lines)) as (incoming, outgoing):
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            # Flush stdout before it is restored, because buffered output would otherwise be sent to
            # the client.
            sys.stdout.flush()
