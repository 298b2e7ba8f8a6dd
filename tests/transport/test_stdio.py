"""The MCP server as a child process, over stdin and stdout."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client, StdioServerParameters

from patience import PATIENCE_SECONDS
from transport.messages import META

HERE = Path(__file__).parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{HERE.parent}:{HERE.parent / 'support'}:{HERE.parents[1]}",
}
# Timeout in seconds; on an idle machine, importing the protocol library takes one second.
Era = Literal["legacy", "auto", "2026-07-28"]


def make_child(kind: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=[str(HERE / "stdio_server.py"), kind], env=ENVIRONMENT
    )


@pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])
async def test_stdio_server_works_even_if_code_prints_to_stdout(era: Era) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), Client(make_child("chatty"), mode=era) as client:
        listed = await client.list_tools()
        result = await client.call_tool("get_next_step", {"planId": "1"})
    assert [tool.name for tool in listed.tools] == [
        "get_next_step",
        "submit_step_result",
        "list_active_plans",
        "store_research",
        "start_skill",
    ]
    assert result.structured_content == {"tool": "get_next_step", "arguments": {"planId": "1"}}


async def make_process(kind: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        str(HERE / "stdio_server.py"),
        kind,
        env=ENVIRONMENT,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )


async def test_stdio_server_answers_garbage_with_protocol_errors_only() -> None:
    process = await make_process("chatty")
    request = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"_meta": META, "name": "get_next_step", "arguments": {}},
    }
    assert process.stdin is not None
    assert process.stdout is not None
    garbage = [b"\x00\xff", b"[" * 10_000, b'{"jsonrpc":"2.0"}', b"1e400", b'"\\ud800"', b""]
    process.stdin.write(b"\n".join([*garbage, json.dumps(request).encode(), b""]))
    async with asyncio.timeout(PATIENCE_SECONDS):
        refused = [json.loads(await process.stdout.readline()) for _ in garbage[:-1]]
        reply = json.loads(await process.stdout.readline())
        process.stdin.close()
        rest, _ = await process.communicate()
    codes = [(response["id"], response["error"]["code"]) for response in refused]
    assert codes == [(None, code) for code in (-32700, -32700, -32600, -32600, -32700)]
    assert reply["id"] == 7
    assert reply["result"]["structuredContent"] == {"tool": "get_next_step", "arguments": {}}
    assert rest == b""
    assert process.returncode == 0
