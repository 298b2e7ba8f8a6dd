"""The same server over stdin and stdout, for clients that start it themselves."""

import sys

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def serve_stdio(server: Server[None]) -> None:
    """Serve one client until it closes our stdin.

    Meanwhile stdout belongs to the protocol: whatever else is printed goes to stderr.
    """
    async with stdio_server() as (incoming, outgoing):
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            # What was printed and not sent yet would else follow once stdout is given back.
            sys.stdout.flush()
