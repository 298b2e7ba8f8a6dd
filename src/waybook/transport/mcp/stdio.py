"""The same server over stdin and stdout, for clients that start it themselves."""

import sys
from contextlib import suppress
from typing import IO, cast

import anyio
from anyio import from_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError

from waybook.transport.mcp.lines import MessageLines, take_stdin


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
