"""Compatibility test with AutoGen and its MCP workbench."""

import asyncio
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, StreamableHttpServerParams
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        server: Any = StdioServerParams(
            command=command, args=arguments, env=trial.environment, read_timeout_seconds=60
        )
    else:
        server = StreamableHttpServerParams(url=trial.url)
    info = ModelInfo(
        vision=False,
        function_calling=True,
        json_output=False,
        family="unknown",
        structured_output=False,
    )
    model = OpenAIChatCompletionClient(
        model="scripted", base_url=trial.openai_url, api_key="none", model_info=info
    )
    async with McpWorkbench(server) as workbench:
        agent = AssistantAgent("worker", model, workbench=workbench, max_tool_iterations=30)
        await agent.run(task=trial.prompt)


asyncio.run(main(read_trial()))
