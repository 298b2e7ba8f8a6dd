"""Compatibility test with mcp-use, whose agent uses LangChain models."""

import asyncio

from langchain_openai import ChatOpenAI
from mcp_use import MCPAgent, MCPClient
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    command, *arguments = trial.command
    if trial.is_stdio:
        server = {"command": command, "args": arguments, "env": trial.environment}
    else:
        server = {"url": trial.url}
    client = MCPClient.from_dict({"mcpServers": {"waybook": server}})
    model = ChatOpenAI(model="scripted", base_url=trial.openai_url, api_key="none")
    agent = MCPAgent(llm=model, client=client, max_steps=30)
    try:
        await agent.run(trial.prompt)
    finally:
        await client.close_all_sessions()


asyncio.run(main(read_trial()))
