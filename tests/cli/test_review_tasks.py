"""Reviews as tasks over stdio, with a new server process for each request."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters

from cli.terminal import Terminal
from patience import PATIENCE_SECONDS
from transport.tasks_client import CreatedTask, Tasks, send

PLAN = {
    "name": "Rivers",
    "researchQuestion": "Which river is longest?",
    "steps": [{"stepType": "search", "instructions": "Look it up."}] * 2,
}


def make_client(terminal: Terminal) -> Client:
    """Return a client that declares tasks and starts a server process."""
    words = ["-m", "waybook", "mcp", "--data-dir", str(terminal.data_dir)]
    child = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    return Client(child, mode="2026-07-28", extensions=[Tasks()])


async def test_review_task_over_stdio_survives_a_server_restart(terminal: Terminal) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with make_client(terminal) as client:
            plan = (await client.call_tool("create_research_plan", PLAN)).structured_content or {}
            named = {"planId": plan["planId"]}
            step = (await client.call_tool("get_next_step", named)).structured_content or {}
            task = await client.session.call_tool(
                "request_user_review",
                {"stepId": step["stepId"], "summary": "Right?"},
                allow_claimed=True,
            )
            assert isinstance(task, CreatedTask), task
            assert (await send(client.session, "tasks/get", task.task_id))["status"] == "working"
        await asyncio.to_thread(
            terminal.say, "review", plan["planId"], "--modify", "Add the lakes."
        )
        async with make_client(terminal) as client:
            polled = await send(client.session, "tasks/get", task.task_id)
            again = (await client.call_tool("get_next_step", named)).structured_content or {}
    result = polled["result"]["structuredContent"]
    assert (polled["status"], result["decision"]) == ("completed", "modify")
    assert (result["feedback"], result["next"]["tool"]) == ("Add the lakes.", "get_next_step")
    assert (again["stepId"], again["attempt"]) == (step["stepId"], 2)
