"""Compatibility test with Agno, over the chat completions API."""

import asyncio
from typing import Any

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from agno.tools.mcp import MCPTools, StreamableHTTPClientParams
from mcp.client.stdio import StdioServerParameters
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    server: Any = StreamableHTTPClientParams(url=trial.url)
    if trial.is_stdio:
        server = StdioServerParameters(command=command, args=arguments, env=trial.environment)
    transport = "stdio" if trial.is_stdio else "streamable-http"
    model = OpenAILike(id="scripted", base_url=trial.openai_url, api_key="none")
    async with MCPTools(server_params=server, transport=transport, timeout_seconds=60) as tools:
        await Agent(model=model, tools=[tools], telemetry=False).arun(trial.prompt)


asyncio.run(main(read_trial()))
