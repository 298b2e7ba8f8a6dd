"""Compatibility test with the official MCP SDK for Python."""

import asyncio
import json
from typing import Any

from chat_loop import run_agent
from mcp import Client, StdioServerParameters
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    process = StdioServerParameters(command=command, args=arguments, env=trial.environment)
    async with Client(process if trial.is_stdio else trial.url) as client:
        listed = await client.list_tools()
        tools = [(tool.name, tool.description, tool.input_schema) for tool in listed.tools]

        async def call(name: str, arguments: Any) -> str:  # noqa: ANN401 - JSON
            result = await client.call_tool(name, arguments)
            return json.dumps(result.structured_content) + str(result.content * result.is_error)

        await run_agent(trial, tools, call)


asyncio.run(main(read_trial()))
