"""A stdio server for tests: it prints to stdout first; its database is slow or unresponsive."""

import asyncio
import sys

from transport.doors import TOOLS, RememberingDoorway, somebody
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.stdio import serve_stdio


async def chatty() -> RememberingDoorway:
    print("a stray word")  # noqa: T201 - what must not reach the protocol
    return RememberingDoorway()


async def silent() -> RememberingDoorway:
    await asyncio.Event().wait()
    raise AssertionError


if __name__ == "__main__":
    opens = {"chatty": chatty, "silent": silent}[sys.argv[1]]
    asyncio.run(serve_stdio(build_server(TOOLS, ToolGateway(opens, somebody))))
