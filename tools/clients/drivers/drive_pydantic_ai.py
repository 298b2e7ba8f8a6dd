"""Compatibility test with pydantic-ai, over the chat completions API."""

import asyncio
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    server: Any = trial.url
    if trial.is_stdio:
        server = StdioTransport(command, arguments, env=trial.environment)
    provider = OpenAIProvider(base_url=trial.openai_url, api_key="none")
    agent = Agent(
        OpenAIChatModel("scripted", provider=provider),
        toolsets=[MCPToolset(server, init_timeout=60)],
    )
    async with agent:
        await agent.run(trial.prompt)


asyncio.run(main(read_trial()))
