"""MCP server that uses only the MCP library: each tool returns a fixed reply, without a database.

`mcp_http.py` starts it in its own process to compare Waybook with it.

    python benchmarks/mcp_library_server.py
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import mcp_types as wire
import uvloop
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import (
    StreamableHTTPASGIApp,
    StreamableHTTPSessionManager,
)
from starlette.applications import Starlette
from starlette.routing import Route

from waybook.transport.http.server import listen, serve_in_background

#: Reply that is about as long as a reply of `get_next_step`.
REPLY: Final = {
    "status": "step_ready",
    "stepId": "9y79wg3e8x",
    "attempt": 1,
    "instructions": "Read the three newest sources and note where they disagree. " * 4,
    "next": {"tool": "submit_step_result", "why": "Submit the result."},
}


async def list_tools(_: ServerRequestContext[None], __: object) -> wire.ListToolsResult:
    """Return two tools that accept any arguments."""
    schema = {"type": "object"}
    names = ("get_next_step", "submit_step_result")
    return wire.ListToolsResult(tools=[wire.Tool(name=n, input_schema=schema) for n in names])


async def call_tool(
    _: ServerRequestContext[None], __: wire.CallToolRequestParams
) -> wire.CallToolResult:
    """Return the fixed reply, as text and as structured content."""
    text = wire.TextContent(text=json.dumps(REPLY))
    return wire.CallToolResult(content=[text], structured_content={**REPLY})


async def main() -> None:
    """Serve on a free port, print the address, and run until the process is ended."""
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Route("/mcp", StreamableHTTPASGIApp(manager))], lifespan=running)
    async with serve_in_background(app, listen("127.0.0.1", 0)) as address:
        print(address, flush=True)
        await wait_for_ever()


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
