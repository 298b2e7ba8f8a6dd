"""A LangGraph graph works through a plan without a checkpointer.

The graph does one step at a time and keeps no state; Waybook stores the plan, the results and the
holder of each step. After a crash, the same command gets the interrupted step again and runs the
graph for it.

Install langgraph, langchain and the package of your model's provider, start a server with
`waybook serve`, create a plan, and run
`python langgraph_agent.py http://127.0.0.1:8750 PLAN_ID openai:gpt-5`
"""
# ruff: noqa: INP001, T201 - an example that is run as a program and prints its progress

import asyncio
import json
import sys
from typing import Literal, TypedDict

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from waybook.client import Client, Step

MAX_DRAFTS = 3
GOOD = "GOOD"


class Work(TypedDict):
    """State of the graph while it does one step."""

    instructions: str
    earlier: str
    draft: str
    criticism: str
    drafts: int


Graph = CompiledStateGraph[Work, None, Work, Work]


def build_graph(model: BaseChatModel) -> Graph:
    """Return a graph that drafts a result and improves it until the critic accepts it."""

    async def write(work: Work) -> dict[str, object]:
        prompt = (
            f"Do this step of a plan: {work['instructions']}\n"
            f"Earlier results: {work['earlier']}\n"
            f"Criticism of your last draft: {work['criticism'] or 'none'}"
        )
        answer = await model.ainvoke(prompt)
        return {"draft": answer.text, "drafts": work["drafts"] + 1}

    async def criticize(work: Work) -> dict[str, object]:
        prompt = f"Answer {GOOD} if this result is good, otherwise criticize it: {work['draft']}"
        answer = await model.ainvoke(prompt)
        return {"criticism": "" if answer.text.startswith(GOOD) else answer.text}

    def is_finished(work: Work) -> Literal["write", "__end__"]:
        is_good = not work["criticism"]
        return END if is_good or work["drafts"] >= MAX_DRAFTS else "write"

    graph = StateGraph(Work)
    graph.add_node("write", write)
    graph.add_node("criticize", criticize)
    graph.add_edge(START, "write")
    graph.add_edge("write", "criticize")
    graph.add_conditional_edges("criticize", is_finished)
    return graph.compile()


async def initial_state(step: Step) -> Work:
    """Return the state of the graph at the beginning of a step."""
    context = await step.context()
    return {
        "instructions": step.instructions,
        "earlier": json.dumps(context.get("earlierResults", [])),
        "draft": "",
        "criticism": "",
        "drafts": 0,
    }


async def work_through(client: Client, plan_id: str, graph: Graph) -> None:
    """Run the graph for one step after the other, until the plan is complete."""
    async for step in client.steps(plan_id):
        async with step:
            work = await graph.ainvoke(await initial_state(step))
            result = {"text": work["draft"], "drafts": work["drafts"]}
            if work["criticism"]:
                await step.review(f"The critic is not content: {work['criticism']}", result=result)
                continue
            done = await step.submit(result)
            print(f"step {step.order}: {done['progress']['done']} done, {done['planStatus']}")


async def main(address: str, plan_id: str, model: str) -> None:
    """Work through a plan; after a crash, the same command continues with the interrupted step."""
    async with Client(address, session_id=f"langgraph-{plan_id}") as client:
        await work_through(client, plan_id, build_graph(init_chat_model(model)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
