"""Compatibility test with Haystack and mcp-haystack."""

from typing import Any

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from haystack_integrations.tools.mcp import (
    MCPToolset,
    StdioServerInfo,
    StreamableHttpServerInfo,
)
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    command, *arguments = trial.command
    server: Any = StreamableHttpServerInfo(url=trial.url)
    if trial.is_stdio:
        server = StdioServerInfo(command=command, args=arguments, env={**trial.environment})
    model = OpenAIChatGenerator(
        api_key=Secret.from_token("none"), model="scripted", api_base_url=trial.openai_url
    )
    tools = MCPToolset(server, connection_timeout=60, eager_connect=True)
    try:
        agent = Agent(chat_generator=model, tools=tools)
        agent.run(messages=[ChatMessage.from_user(trial.prompt)])
    finally:
        tools.close()


main(read_trial())
