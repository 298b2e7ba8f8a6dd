"""Compatibility test with Microsoft's Agent Framework, over the chat completions API."""

import asyncio
from typing import Any

from agent_framework import Agent, MCPStdioTool, MCPStreamableHTTPTool
from agent_framework.openai import OpenAIChatCompletionClient
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    server: Any = MCPStreamableHTTPTool("waybook", trial.url, request_timeout=60)
    if trial.is_stdio:
        server = MCPStdioTool(
            "waybook", command, args=arguments, env=trial.environment, request_timeout=60
        )
    model = OpenAIChatCompletionClient("scripted", base_url=trial.openai_url, api_key="none")
    async with server, Agent(model, tools=[server]) as agent:
        await agent.run(trial.prompt)


asyncio.run(main(read_trial()))
