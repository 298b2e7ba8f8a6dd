"""Two agents with separate `waybook mcp` processes are notified of each other's changes."""

import asyncio
import os
import sys

import mcp_types as wire
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.subscriptions import ResourceUpdated

from cli.terminal import Terminal
from org_env import Body
from patience import PATIENCE_SECONDS

#: Ignore the deprecation warning: the newest protocol revision deprecates resource subscriptions,
#: but older clients still use them.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

PLAN = {
    "name": "Rivers",
    "researchQuestion": "Which river is longest?",
    "steps": [{"stepType": "search", "instructions": "Look it up."}] * 2,
}


def make_child(terminal: Terminal) -> StdioServerParameters:
    words = ["-m", "waybook", "mcp", "--data-dir", str(terminal.data_dir)]
    return StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))


async def called(client: Client, tool: str, **arguments: object) -> Body:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


async def test_mcp_clients_of_any_protocol_version_receive_resource_updates(
    terminal: Terminal,
) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: object) -> None:
        if isinstance(message, wire.ResourceUpdatedNotification):
            await updated.put(str(message.params.uri))

    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Client(make_child(terminal), mode="legacy", message_handler=hear) as older,
        Client(make_child(terminal), mode="2026-07-28") as newer,
    ):
        plan = await called(older, "create_research_plan", **PLAN)
        uri = f"waybook://plans/{plan['planId']}"
        await older.session.subscribe_resource(uri)
        async with newer.listen(resource_subscriptions=[uri]) as subscription:
            step = await called(newer, "get_next_step", planId=plan["planId"])
            assert await updated.get() == uri
            assert await anext(subscription) == ResourceUpdated(uri)
            held = {"stepId": step["stepId"], "attempt": step["attempt"]}
            await called(older, "submit_step_result", **held, resultSummary="The Nile.")
            assert await anext(subscription) == ResourceUpdated(uri)
