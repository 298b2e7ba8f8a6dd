"""Compatibility test with smolagents, over the chat completions API."""

from typing import Any

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent
from trial import Trial, read_trial


def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        server: Any = StdioServerParameters(command=command, args=arguments, env=trial.environment)
    else:
        server = {"url": trial.url, "transport": "streamable-http"}
    model = OpenAIServerModel("scripted", api_base=trial.openai_url, api_key="none")
    with MCPClient(server, structured_output=True) as tools:
        ToolCallingAgent(tools, model, max_steps=30).run(trial.prompt)


main(read_trial())
