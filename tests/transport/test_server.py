"""MCP server, called in the same process and over stdio, and the client names that it records."""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import Implementation, TextContent

from patience import PATIENCE_SECONDS
from transport.fake_dispatcher import (
    TOOLS,
    RecordingDispatcher,
    any_caller,
    make_app,
    make_server,
    serve,
)
from waybook.app.request.caller import Answer, Caller
from waybook.errors import Unavailable
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.prompts import instructions_for
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import MAX_CLIENT_LENGTH, clean_name

Era = Literal["legacy", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


INCLUDING = "profiles that include it"


@BOTH_ERAS
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_tool", ""),
        ("", ""),
        (
            "start_run",
            (
                " is not in the tool profile research of this server; "
                f"{INCLUDING}: auto, runs, work, all"
            ),
        ),
    ],
)
async def test_calling_a_tool_outside_the_profile_raises_a_protocol_error(
    era: Era, name: str, reason: str
) -> None:
    dispatcher = RecordingDispatcher()
    server = make_server(dispatcher, profile="research")
    async with Client(server, mode=era) as client:
        with pytest.raises(MCPError) as refusal:
            await client.call_tool(name, {})
    assert refusal.value.code == -32602
    assert refusal.value.message == f"Unknown tool: {name}{reason}"
    assert dispatcher.calls == []


@BOTH_ERAS
async def test_mcp_lists_are_available_before_the_database_is_ready(era: Era) -> None:
    async def never() -> RecordingDispatcher:
        await asyncio.Event().wait()
        raise AssertionError

    tools = {name: tool for name, tool in TOOLS.items() if name != "start_skill"}
    server = build_server(tools, ToolGateway(never, any_caller), profile="all")
    async with asyncio.timeout(PATIENCE_SECONDS), Client(server, mode=era) as client:
        assert (await client.list_tools()).tools
        assert (await client.list_resource_templates()).resource_templates
        assert (await client.list_prompts()).prompts


@BOTH_ERAS
async def test_tool_call_returns_an_error_if_the_database_does_not_start(era: Era) -> None:
    async def shut() -> RecordingDispatcher:
        raise Unavailable("The database does not start.", path="data")

    server = build_server(TOOLS, ToolGateway(shut, any_caller))
    async with Client(server, mode=era) as client:
        result = await client.call_tool("get_next_step", {"planId": "1"})
    assert result.is_error
    [block] = result.content
    assert isinstance(block, TextContent)
    assert block.text == (
        '{"error":{"code":"UNAVAILABLE","message":"The database does not start.",'
        '"details":{"path":"data","retryAfter":5},"next":null}}'
    )


@BOTH_ERAS
async def test_exception_text_of_tool_call_is_logged_but_not_returned(
    era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(RecordingDispatcher):
        async def dispatch(self, _: Caller, __: str, ___: Mapping[str, object]) -> Answer:
            raise ZeroDivisionError("password=hunter2")

    async def opened() -> Broken:
        return Broken()

    server = build_server(TOOLS, ToolGateway(opened, any_caller))
    async with Client(server, mode=era) as client:
        with pytest.raises(MCPError) as refusal:
            await client.call_tool("get_next_step", {"planId": "1"})
    assert refusal.value.code == -32603
    assert refusal.value.message == "Internal error"
    assert "hunter2" in caplog.text


@BOTH_ERAS
async def test_server_info_and_instructions_are_sent_to_client(era: Era) -> None:
    server = make_server()
    async with Client(server, mode="auto" if era == "2026-07-28" else era) as client:
        info = client.server_info
        assert client.instructions == instructions_for({"get_next_step"}, later_runs=True)
    assert info is not None
    assert (info.name, info.title) == ("waybook", "Waybook")
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", info.version)


ASKING: Mapping[str, Callable[[Client, str], Awaitable[object]]] = {
    "a tool": lambda client, name: client.call_tool(name, {}),
    "a prompt": lambda client, name: client.get_prompt(name),
    "a resource": lambda client, name: client.read_resource(name),
}


@BOTH_ERAS
@pytest.mark.parametrize("what", ASKING)
async def test_mcp_error_for_long_unknown_name_is_truncated(era: Era, what: str) -> None:
    async with Client(make_server(), mode=era) as client:
        with pytest.raises(MCPError) as refusal:
            await ASKING[what](client, "x:" + "-eyJaaaaaaaa" * 20_000)
    assert len(str(refusal.value.error)) < 2_000


# Tests of client names.


CODER = Implementation(name="claude-code", version="2.1.3")


@pytest.mark.parametrize(
    ("era", "name"), [("2026-07-28", "claude-code"), ("legacy", "python-httpx2")]
)
async def test_name_of_older_http_client_comes_from_the_user_agent(era: Era, name: str) -> None:
    dispatcher = RecordingDispatcher()
    async with (
        serve(make_app(make_server(dispatcher)), dispatcher.bus.close) as address,
        Client(f"{address}/mcp", mode=era, client_info=CODER) as client,
    ):
        await client.call_tool("get_next_step", {"planId": "1"})
    ((caller, _, _),) = dispatcher.calls
    assert caller.client == name


@BOTH_ERAS
async def test_client_name_of_a_persistent_connection_comes_from_handshake(era: Era) -> None:
    dispatcher = RecordingDispatcher()
    server = make_server(dispatcher, is_persistent=True)
    async with Client(server, mode=era, client_info=CODER) as client:
        await client.call_tool("get_next_step", {"planId": "1"})
        await client.call_tool("get_next_step", {"planId": "2"})
    assert {caller.client for caller, _, _ in dispatcher.calls} == {"claude-code"}


def test_client_name_has_no_line_breaks_and_no_secrets() -> None:
    assert clean_name("a\nb\x00\u202ec") == "a b c"
    assert clean_name("x" * 500) == "x" * MAX_CLIENT_LENGTH
    secret = "wb_" + "a" * 43
    assert secret not in (clean_name(f"agent {secret}") or "")


# Tests of the server as a child process.


HERE = Path(__file__).parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{HERE.parent}:{HERE.parent / 'support'}:{HERE.parents[1]}",
}


async def test_stdio_server_works_even_if_code_prints_to_stdout() -> None:
    child = StdioServerParameters(
        command=sys.executable, args=[str(HERE / "stdio_server.py")], env=ENVIRONMENT
    )
    async with asyncio.timeout(PATIENCE_SECONDS), Client(child, mode="legacy") as client:
        listed = await client.list_tools()
        result = await client.call_tool("get_next_step", {"planId": "1"})
    assert "get_next_step" in [tool.name for tool in listed.tools]
    assert result.structured_content == {"tool": "get_next_step", "arguments": {"planId": "1"}}
