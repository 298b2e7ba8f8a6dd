"""Calls and tokens that an agent needs for a plan, with Waybook and with Task Master.

A scripted agent completes the same plan over stdio with the fewest calls that each server's
instructions allow: with Waybook the calls that `next` names, with Task Master one `add_task` per
step and then `next_task` and `set_task_status` per step. The benchmark counts the tokens (encoding
o200k) of all replies and of the tool list, because the agent's model reads both. Task Master is
installed by npx, and its tasks are added without a language model.

    python benchmarks/agent_tokens.py [--steps 5 13] [--without-peer]
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import orjson
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from splintr import Tokenizer

from waybook.cli.demo.environment import temporary_database

ENCODER = Tokenizer.from_pretrained("o200k_base")
PEER = ["npx", "--yes", "--package", "task-master-ai@0.43.1", "task-master-ai"]
INSTRUCTIONS = "Find the three longest rivers of continent {}."
#: Maximum numbers of calls and of tokens, by the number of steps of the plan. With 13 steps or
#: more, the agent also makes one call for the status and one for the context.
LIMITS = {5: (7, 1_000), 13: (17, 5_000)}


class CountingClient:
    """MCP client that counts calls and the tokens of replies."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls = 0
        self.tokens = 0

    @classmethod
    @asynccontextmanager
    async def started(cls, command: list[str], folder: str, data: Path) -> AsyncIterator[Self]:
        environment = {
            **os.environ,
            "WAYBOOK_DATA_DIR": str(data),
            "TASK_MASTER_TOOLS": "standard",
        }
        server = StdioServerParameters(
            command=command[0], args=command[1:], cwd=folder, env=environment
        )
        with open(os.devnull, "w") as log:  # noqa: ASYNC230, PTH123 - the server's log
            async with Client(stdio_client(server, errlog=log)) as client:
                yield cls(client)

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        text = "".join(getattr(block, "text", "") for block in result.content)
        assert not result.is_error, text
        self.calls += 1
        self.tokens += count_tokens(text)
        return dict(result.structured_content or orjson.loads(text))

    async def tool_tokens(self) -> int:
        """Return the number of tokens that the tool list takes in a model's context."""
        tools = (await self._client.list_tools()).tools
        visible = [
            {"name": t.name, "description": t.description, "input_schema": t.input_schema}
            for t in tools
        ]
        return sum(count_tokens(orjson.dumps(tool).decode()) for tool in visible)


def count_tokens(text: str) -> int:
    return len(ENCODER.encode(text))


async def work_with_waybook(agent: CountingClient, steps: int) -> None:
    """Create a Waybook plan, and make the calls that `next` names until the plan is complete."""
    plan: list[Any] = [
        {"stepType": "search", "title": f"Part {n}", "instructions": INSTRUCTIONS.format(n)}
        for n in range(1, steps + 1)
    ]
    reply = await agent.call(
        "create_research_plan",
        name="Rivers",
        researchQuestion="Which river is longest?",
        steps=plan,
    )
    while reply.get("status") != "plan_complete":
        following = reply["next"]
        result = {"resultSummary": "found"} if "attempt" in following["args"] else {}
        reply = await agent.call(following["tool"], **following["args"], **result, sessionId="a")
    if steps >= max(LIMITS):
        await agent.call("get_plan_status", planId=reply["planId"])
        await agent.call("get_research_context", planId=reply["planId"])


async def work_with_peer(agent: CountingClient, folder: str, steps: int) -> None:
    """Add a Task Master task for each step, then ask for each task and set its status to done."""
    root = {"projectRoot": folder}
    await agent.call("initialize_project", **root, skipInstall=True, initGit=False, rules=[])
    # Do not count the calls that initialize a project, because they are made only once.
    agent.calls = agent.tokens = 0
    for n in range(1, steps + 1):
        words = {"title": f"Part {n}", "description": INSTRUCTIONS.format(n)}
        await agent.call("add_task", **root, **words)
    for n in range(1, steps + 1):
        await agent.call("next_task", **root)
        await agent.call("set_task_status", **root, id=str(n), status="done")
    await agent.call("next_task", **root)
    if steps >= max(LIMITS):
        await agent.call("get_tasks", **root)
        await agent.call("get_task", **root, id="1")


async def measure(name: str, command: list[str], steps: int) -> tuple[int, int]:
    """Measure one server and print the results; return its numbers of calls and tokens."""
    with temporary_database() as data:
        folder = str(data.parent / name)
        Path(folder).mkdir()  # noqa: ASYNC240 - before the server starts
        async with CountingClient.started(command, folder, data) as agent:
            tools = await agent.tool_tokens()
            if command is PEER:
                await work_with_peer(agent, folder, steps)
            else:
                await work_with_waybook(agent, steps)
    print(f"{steps:5}  {name:14}{agent.calls:8}{agent.tokens:10,}{tools:12,}")
    return agent.calls, agent.tokens


async def main(all_steps: list[int], *, has_peer: bool) -> None:
    """Measure plans of each length; raise AssertionError if a limit is exceeded."""
    print(f"{'steps':5}  {'server':14}{'calls':>8}{'tokens':>10}{'tool list':>12}")
    for steps in all_steps:
        calls, tokens = await measure("Waybook", [sys.executable, "-m", "waybook", "mcp"], steps)
        if has_peer:
            await measure("Task Master", PEER, steps)
        max_calls, max_tokens = LIMITS.get(steps, (calls, tokens))
        assert calls <= max_calls, f"{calls} calls; the limit is {max_calls}"
        assert tokens <= max_tokens, f"{tokens} tokens; the limit is {max_tokens}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=list(LIMITS))
    parser.add_argument("--without-peer", action="store_true")
    options = parser.parse_args()
    asyncio.run(main(options.steps, has_peer=not options.without_peer))
