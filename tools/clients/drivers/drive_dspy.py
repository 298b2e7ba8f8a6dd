"""Compatibility test with a DSPy agent that uses native tool calls."""

import asyncio
from typing import Any

import dspy
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    server: Any = trial.url
    if trial.is_stdio:
        server = stdio_client(
            StdioServerParameters(command=command, args=arguments, env=trial.environment)
        )
    # DSPy uses native tool calls only with models that it knows, so the scripted model has the name
    # of a real model.
    model = dspy.LM("openai/gpt-4o", api_base=trial.openai_url, api_key="none", cache=False)
    adapter = dspy.ChatAdapter(use_native_function_calling=True)
    async with Client(server) as client:
        listed = (await client.list_tools()).tools
        tools = [dspy.Tool.from_mcp_tool(client, tool) for tool in listed]
        with dspy.context(lm=model, adapter=adapter):
            await dspy.ReActV2("question -> answer", tools).acall(question=trial.prompt)


asyncio.run(main(read_trial()))
