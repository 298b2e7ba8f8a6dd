"""MCP over stdin and stdout, for clients that start the server as a subprocess.

A line that is too long or invalid gets the same error as over HTTP.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, BinaryIO, Final, Self, cast

import anyio
from anyio import from_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCResponse

from waybook.transport.jsonrpc import MESSAGE_LIMIT, error_body, id_of, may_wait, read_message

_PREVIEW_BYTES: Final = 4096
_READ_SIZE: Final = 64 * 1024
#: Seconds within which open requests are answered after the client has closed stdin.
_ANSWER_SECONDS: Final = 30.0

_TOO_LONG_MESSAGE: Final = (
    f"A message may have {MESSAGE_LIMIT} bytes; split the work into smaller calls."
)
_TOO_LONG: Final = ErrorData(
    code=INVALID_REQUEST,
    message=_TOO_LONG_MESSAGE,
    data=error_body("TOO_LARGE", _TOO_LONG_MESSAGE, limit=MESSAGE_LIMIT),
)

_ErrorWriter = Callable[[JSONRPCError], None]


class _MessageLines:
    def __init__(self, wire: BinaryIO, refuse: _ErrorWriter) -> None:
        """Read lines from `wire`, and pass errors of invalid lines to `refuse`."""
        self._wire = wire
        self._refuse = refuse
        self._open: set[object] = set()
        self._all_answered = threading.Event()
        self._all_answered.set()

    def readline(self) -> str:
        """Return the next line with a valid message, or an empty text at the end of input.

        At the end of input, this waits until all open requests are answered.
        """
        while line := self._wire.readline(MESSAGE_LIMIT + 1):
            if not line.endswith(b"\n") and len(line) > MESSAGE_LIMIT:
                end = line[-_PREVIEW_BYTES:]
                while not end.endswith(b"\n") and (piece := self._wire.readline(_READ_SIZE)):
                    end = (end + piece)[-_PREVIEW_BYTES:]
                request_id = id_of(line[:_PREVIEW_BYTES], end)
                self._refuse(JSONRPCError(jsonrpc="2.0", id=request_id, error=_TOO_LONG))
            elif isinstance(read := read_message(line), ErrorData):
                if not line.isspace():
                    self._refuse(JSONRPCError(jsonrpc="2.0", id=None, error=read))
            else:
                self._note(read)
                return line.decode()
        self._all_answered.wait(_ANSWER_SECONDS)
        return ""

    def _note(self, message: Mapping[str, object]) -> None:
        match message:
            case {"method": "subscriptions/listen"}:
                return
            case {"method": "notifications/cancelled", "params": {"requestId": request_id}}:
                self.close_request(request_id)
            case {"method": _, "id": request_id} if not may_wait(message):
                self._open.add(request_id)
                self._all_answered.clear()

    def close_request(self, request_id: object) -> None:
        self._open.discard(request_id)
        if not self._open:
            self._all_answered.set()


class _Answers:
    def __init__(self, stream: WriteStream[SessionMessage], lines: _MessageLines) -> None:
        self._stream = stream
        self._lines = lines

    async def send(self, item: SessionMessage) -> None:
        await self._stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._lines.close_request(item.message.id)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def serve_stdio(server: Server[None]) -> None:
    """Serve one MCP client until it closes stdin. Other output of this process goes to stderr."""

    def refuse(error: JSONRPCError) -> None:
        # The client has disconnected, so the error does not matter.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            from_thread.run(outgoing.send, SessionMessage(error))

    # Take stdin for exclusive use. Other readers in this process find it empty.
    stdin, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # `_MessageLines` has all file methods that `stdio_server` uses.
    lines = _MessageLines(os.fdopen(stdin, "rb", _READ_SIZE, closefd=False), refuse)
    async with stdio_server(anyio.wrap_file(cast("IO[str]", lines))) as (incoming, outgoing):
        try:
            await server.run(
                incoming, _Answers(outgoing, lines), server.create_initialization_options()
            )
        finally:
            # Flush now, while stdout leads to stderr. Later, the output would reach the client.
            sys.stdout.flush()
