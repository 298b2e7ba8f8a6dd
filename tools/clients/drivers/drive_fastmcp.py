"""Compatibility test with the MCP client of fastmcp."""

import asyncio
import json
from typing import Any

from chat_loop import run_agent
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        transport: Any = StdioTransport(command, arguments, env=trial.environment)
    else:
        transport = StreamableHttpTransport(trial.url)
    async with Client(transport) as client:
        listed = await client.list_tools()
        tools = [
            (each["name"], each["description"], each["inputSchema"])
            for each in (tool.model_dump(by_alias=True) for tool in listed)
        ]

        async def call(name: str, arguments: Any) -> str:  # noqa: ANN401 - JSON
            result = await client.call_tool(name, arguments)
            return json.dumps(result.structured_content)

        await run_agent(trial, tools, call)


asyncio.run(main(read_trial()))
