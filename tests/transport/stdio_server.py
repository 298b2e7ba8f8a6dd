"""Server over stdio for tests, which prints to stdout before it serves.

Its database starts slowly or never.
"""

import asyncio
import sys

from transport.fake_dispatcher import TOOLS, RecordingDispatcher, any_caller
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.stdio import serve_stdio


async def chatty() -> RecordingDispatcher:
    print("a stray word")  # noqa: T201 - what must not reach the protocol
    return RecordingDispatcher()


async def silent() -> RecordingDispatcher:
    await asyncio.Event().wait()
    raise AssertionError


if __name__ == "__main__":
    opens = {"chatty": chatty, "silent": silent}[sys.argv[1]]
    asyncio.run(serve_stdio(build_server(TOOLS, ToolGateway(opens, any_caller))))
