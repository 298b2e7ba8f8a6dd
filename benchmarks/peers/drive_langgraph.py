"""Program that runs the benchmark's work on LangGraph: a graph of ten nodes in sequence.

A plan is a thread of the graph. Every step writes its checkpoint to PostgreSQL before the next step
starts (durability `sync`). Steps are not claimed. Each lane (concurrent worker) has its own
checkpointer and connection, because a checkpointer sends one query at a time. The first checkpoint
of a thread, with the instructions, is written before the measurement.
"""

import sys
from collections.abc import Awaitable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

import lanes

NODES = [f"step_{number}" for number in range(lanes.STEPS)]


class State(TypedDict):
    """Instructions of all steps, and the result of the last step."""

    steps: list[str]
    result: str


async def step(state: State) -> dict[str, str]:
    assert state["steps"]
    return {"result": lanes.RESULT}


def build(saver: AsyncPostgresSaver) -> CompiledStateGraph:
    graph = StateGraph(State)
    for node in NODES:
        graph.add_node(node, step)
    for source, target in zip([START, *NODES], [*NODES, END], strict=True):
        graph.add_edge(source, target)
    return graph.compile(checkpointer=saver)


async def create_threads(graph: CompiledStateGraph, names: Sequence[str]) -> list[dict[str, Any]]:
    """Create threads that stop before their first step, and return their configurations."""
    threads = [{"configurable": {"thread_id": name}} for name in names]
    state = {"steps": [lanes.INSTRUCTIONS] * lanes.STEPS, "result": ""}
    for thread in threads:
        await graph.ainvoke(state, thread, interrupt_before=NODES[:1], durability="sync")
    return threads


async def work(graph: CompiledStateGraph, threads: Sequence[dict[str, Any]]) -> None:
    for thread in threads:
        ended = await graph.ainvoke(None, thread, durability="sync")
        assert ended["result"] == lanes.RESULT


async def main(address: str) -> None:
    """Install the schema if it is missing, and run the rounds that `run.py` requests."""
    async with AsyncExitStack() as stack:
        savers = [
            await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(address))
            for _ in range(lanes.LANES)
        ]
        await savers[0].setup()
        graphs = [build(saver) for saver in savers]

        async def prepare(turn: int, plans: int) -> Sequence[Awaitable[object]]:
            return [
                work(
                    graph, await create_threads(graph, [f"{turn}-{lane}-{n}" for n in range(plans)])
                )
                for lane, graph in enumerate(graphs)
            ]

        await lanes.serve(prepare)


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
