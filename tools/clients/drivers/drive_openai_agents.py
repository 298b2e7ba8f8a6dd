"""Compatibility test with openai-agents, over OpenAI's responses API."""

import asyncio

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI
from trial import Trial, read_trial


def make_server(trial: Trial) -> MCPServer:
    """Return a connection to Waybook's server, with a timeout that allows for a slow start."""
    command, *arguments = trial.command
    if trial.is_stdio:
        params = {"command": command, "args": arguments, "env": trial.environment}
        return MCPServerStdio(params, client_session_timeout_seconds=60)
    return MCPServerStreamableHttp({"url": trial.url}, client_session_timeout_seconds=60)


async def main(trial: Trial) -> None:
    set_tracing_disabled(disabled=True)
    api = AsyncOpenAI(base_url=trial.openai_url, api_key="none")
    async with make_server(trial) as server:
        agent = Agent(
            name="worker",
            model=OpenAIResponsesModel("scripted", api),
            mcp_servers=[server],
        )
        await Runner.run(agent, trial.prompt, max_turns=30)


asyncio.run(main(read_trial()))
