"""Client names: each call has the name that the MCP client reports for itself."""

from typing import Literal

import pytest
from mcp import Client
from mcp_types import Implementation

from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway
from waybook.transport.http.app import build_app
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import MAX_CLIENT_LENGTH, clean_name

CODER = Implementation(name="claude-code", version="2.1.3")


async def client_over_http(mode: Literal["legacy", "2026-07-28"]) -> str | None:
    dispatcher = RecordingDispatcher()
    app = build_app(
        build_server(TOOLS, make_gateway(dispatcher)), hosts=AllowedHosts(), ready=always
    )
    async with (
        serve_in_background(app, listen("127.0.0.1", 0), dispatcher.bus.close) as address,
        Client(f"{address}/mcp", mode=mode, client_info=CODER) as client,
    ):
        await client.call_tool("get_next_step", {"planId": "1"})
    ((caller, _, _),) = dispatcher.calls
    return caller.client


async def test_client_name_over_http_comes_from_the_request() -> None:
    assert await client_over_http("2026-07-28") == "claude-code"


async def test_older_client_over_http_is_named_by_user_agent() -> None:
    assert await client_over_http("legacy") == "python-httpx2"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_client_name_on_a_connection_comes_from_handshake(
    mode: Literal["legacy", "2026-07-28"],
) -> None:
    dispatcher = RecordingDispatcher()
    server = build_server(TOOLS, make_gateway(dispatcher), one_line=True)
    async with Client(server, mode=mode, client_info=CODER) as client:
        await client.call_tool("get_next_step", {"planId": "1"})
        await client.call_tool("get_next_step", {"planId": "2"})
    assert {caller.client for caller, _, _ in dispatcher.calls} == {"claude-code"}


def test_client_name_has_no_line_breaks_and_no_secrets() -> None:
    assert clean_name("a\nb\x00\u202ec") == "a b c"
    assert clean_name("x" * 500) == "x" * MAX_CLIENT_LENGTH
    secret = "wb_" + "a" * 43
    assert secret not in (clean_name(f"agent {secret}") or "")
