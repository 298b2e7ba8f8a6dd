"""Compatibility test with LangGraph: a graph with one model node and one tool node."""

import asyncio
from typing import Any

from langchain_openai import ChatOpenAI
from langchain_tools import load_tools
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from trial import Trial, read_trial


async def main(trial: Trial) -> None:
    async with load_tools(trial) as tools:
        chat = ChatOpenAI(model="scripted", base_url=trial.openai_url, api_key="none")
        model = chat.bind_tools(tools)

        async def ask(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", ask)
        builder.add_node("tools", ToolNode(tools))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        message = {"role": "user", "content": trial.prompt}
        await builder.compile().ainvoke({"messages": [message]}, {"recursion_limit": 60})


asyncio.run(main(read_trial()))
