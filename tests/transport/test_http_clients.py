"""Real MCP clients of older and newer protocol revisions, over a real port."""

import asyncio
from typing import Literal

import pytest
from mcp import Client

from transport.conformance.overlay import REPORTING, lay_over
from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway
from waybook.transport.http.app import build_app
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.server import build_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

Era = Literal["legacy", "auto", "2026-07-28"]
EVERY_ERA = pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])


@EVERY_ERA
async def test_client_of_every_protocol_version_makes_concurrent_calls(
    address: str, era: Era
) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        listed = await client.list_tools()
        assert (await client.list_resources()).resources
        assert (await client.list_prompts()).prompts
        results = await asyncio.gather(
            *(client.call_tool("get_next_step", {"planId": str(number)}) for number in range(20))
        )
    assert [tool.name for tool in listed.tools] == list(TOOLS)
    assert [result.structured_content for result in results] == [
        {"tool": "get_next_step", "arguments": {"planId": str(number)}} for number in range(20)
    ]


@EVERY_ERA
async def test_mcp_progress_notifications_reach_requesting_client(era: Era) -> None:
    server = lay_over(build_server(TOOLS, make_gateway(RecordingDispatcher())))
    app = build_app(server, hosts=AllowedHosts(), ready=always, reporting=REPORTING)
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with (
        serve_in_background(app, listen("127.0.0.1", 0)) as address,
        Client(f"{address}/mcp", mode=era) as client,
    ):
        await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)
    assert heard == [(0, 100, None), (50, 100, None), (100, 100, None)]
