"""Compatibility test with a function agent of LlamaIndex, over the chat completions API."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        client = BasicMCPClient(command, args=arguments, env=trial.environment, timeout=60)
    else:
        client = BasicMCPClient(trial.url, timeout=60)
    tools = await McpToolSpec(client=client).to_tool_list_async()
    model = OpenAILike(
        model="scripted",
        api_base=trial.openai_url,
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
    )
    await FunctionAgent(tools=tools, llm=model).run(trial.prompt, max_iterations=40)


asyncio.run(main(read_trial()))
