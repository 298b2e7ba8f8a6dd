"""Compatibility test with deepagents and langchain-mcp-adapters."""

import asyncio

from deepagents import create_deep_agent
from langchain_openai import ChatOpenAI
from langchain_tools import load_tools
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    async with load_tools(trial) as tools:
        model = ChatOpenAI(model="scripted", base_url=trial.openai_url, api_key="none")
        agent = create_deep_agent(model, tools)
        message = {"role": "user", "content": trial.prompt}
        await agent.ainvoke({"messages": [message]}, {"recursion_limit": 100})


asyncio.run(main(read_trial()))
