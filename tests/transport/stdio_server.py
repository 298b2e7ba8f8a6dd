"""MCP server over stdio that prints a text to stdout before it serves."""

import asyncio

from transport.fake_dispatcher import TOOLS, RecordingDispatcher, any_caller
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.stdio import serve_stdio


async def opened() -> RecordingDispatcher:
    print("a stray word")  # noqa: T201 - must not reach the protocol
    return RecordingDispatcher()


if __name__ == "__main__":
    asyncio.run(serve_stdio(build_server(TOOLS, ToolGateway(opened, any_caller))))
