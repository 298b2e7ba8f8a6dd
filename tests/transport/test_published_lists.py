"""Lists that MCP clients read first do not depend on stored data."""

from mcp import Client

from marked_data import MarkedWriter, marked_output, marked_plan, marked_run
from org_env import AgentClient, OrgEnv
from transport.full_app import gateway_of
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools


def make_client(agent: AgentClient) -> Client:
    return Client(build_server(published_tools(), gateway_of(agent), profile="all"), mode="legacy")


async def what_is_ours(agent: AgentClient) -> list[str]:
    """Return the published MCP lists, a prompt and the instructions, as sent to clients."""
    async with make_client(agent) as client:
        replies = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resource_templates(),
            await client.get_prompt("resume_plan", {"planId": "p"}),
        ]
        assert client.instructions
        return [*(reply.model_dump_json() for reply in replies), client.instructions]


async def test_tool_and_prompt_lists_ignore_stored_data(world: OrgEnv) -> None:
    before = await what_is_ours(world.agent)
    ink = MarkedWriter()
    await marked_plan(world.agent, ink)
    await marked_output(world.agent, ink)
    await marked_run(world.agent, ink)
    assert await what_is_ours(world.agent) == before


async def test_plan_name_appears_only_in_the_resource_title(world: OrgEnv) -> None:
    ink = MarkedWriter()
    await marked_plan(world.agent, ink)
    (mark,) = [mark for mark, leaf in ink.written.items() if leaf[1:] == ("name",)]
    async with make_client(world.agent) as client:
        listed = await client.list_resources()
    (plan,) = [
        resource for resource in listed.resources if resource.uri.startswith("waybook://plans/")
    ]
    assert mark in (plan.title or "")
    assert mark not in plan.model_copy(update={"title": ""}).model_dump_json()
