"""The MCP server: the doorway's tool table, served to every protocol revision."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import mcp_types as wire
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import Server

from waybook.transport.entrance import Entrance
from waybook.transport.mcp.app.resource import EXTENSION, MIME_TYPE
from waybook.transport.mcp.asking import REVIEW, Asking
from waybook.transport.mcp.completions import Completions
from waybook.transport.mcp.instructions import instructions_for
from waybook.transport.mcp.prompts import Prompts
from waybook.transport.mcp.refusals import Context, invalid, keep_internals
from waybook.transport.mcp.resources import Resources
from waybook.transport.mcp.skills import Skills
from waybook.transport.mcp.subscriptions import Standing, Streams
from waybook.transport.mcp.tools import Offered, offered_tools, result_of

# What is the same for every caller and for as long as this process runs may be kept a while.
KEEP: Final[Mapping[CacheableMethod, CacheHint]] = {
    "server/discover": CacheHint(ttl_ms=300_000, scope="public"),
    "tools/list": CacheHint(ttl_ms=300_000, scope="public"),
    "resources/templates/list": CacheHint(ttl_ms=300_000, scope="public"),
}


def build_server(
    tools: Mapping[str, Offered],
    entrance: Entrance,
    *,
    profile: str = "plan",
    one_line: bool = False,
) -> Server[None]:
    """A server over the tools of a profile; every call goes in through the entrance.

    The tools are listed from memory, so listing never waits for the entrance to open. `one_line`
    says that there is one client, over a line that stays: it can be told things unasked.
    """
    listing = wire.ListToolsResult(tools=offered_tools(tools, profile))
    schemas = {tool.name: tool.input_schema for tool in listing.tools}
    runs = "get_next_job" in schemas
    skills = Skills(entrance) if "start_skill" in schemas else None
    resources = Resources(entrance, runs=runs, skills=skills)
    asking = Asking(entrance)
    prompts = Prompts(entrance, skills=skills is not None, runs=runs)
    standing = Standing(entrance)

    async def list_tools(_: Context, __: object) -> wire.ListToolsResult:
        return listing

    async def call_tool(
        context: Context, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        if params.name not in schemas:
            raise invalid(f"Unknown tool: {params.name}")
        if params.name == REVIEW:
            return await asking.review(context, params)
        answer = await entrance.enter(context.request, params.name, params.arguments or {})
        return result_of(answer)

    server = Server(
        "waybook",
        title="Waybook",
        version=version("waybook"),
        description="The plan book that AI agents and people share.",
        instructions=instructions_for(schemas),
        cache_hints=KEEP,
        lifespan=standing.while_serving,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        on_completion=Completions(entrance).complete,
        on_subscriptions_listen=Streams(entrance).listen,
    )
    server.extensions[EXTENSION] = {"mimeTypes": [MIME_TYPE]}
    if skills is not None:
        skills.serve(server)
    if one_line:
        standing.serve(server)
    server.middleware.append(keep_internals)
    return server
