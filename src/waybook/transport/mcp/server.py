"""MCP server with tools, resources and prompts, for every revision of the MCP specification."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Final

import mcp_types as wire
from mcp.server.caching import CacheableMethod, CacheHint

from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import APPS_EXTENSION, Context, hide_internal_errors, invalid_params
from waybook.transport.mcp.conversation_files import ConversationFiles
from waybook.transport.mcp.direct_calls import ToolServer
from waybook.transport.mcp.prompts import Prompts, instructions_for
from waybook.transport.mcp.resources import (
    APP_TOOLS,
    KINDS,
    MIME_TYPE,
    Resources,
    Skills,
    open_plans,
    open_runs,
    shows_apps,
)
from waybook.transport.mcp.subscriptions import ListenStreams, ResourceSubscriptions
from waybook.transport.mcp.tools import (
    REVIEW,
    PublishedTool,
    ReviewElicitation,
    RunTools,
    ToolResult,
    tools_in_profile,
    tools_of_workers,
    unknown_tool,
)

_MAX_COMPLETIONS: Final = 100

#: Prompts and resource URIs for whose argument clients can request completions. The value in `URIS`
#: is true for runs and false for plans.
PROMPTS: Final = {"resume_plan": "planId", "work_on_run": "runId"}
URIS: Final = {kind.uri: kind.of_runs for kind in KINDS if kind.argument in {"planId", "runId"}}


async def complete(
    gateway: ToolGateway, context: Context, params: wire.CompleteRequestParams
) -> wire.CompleteResult:
    """Return the open plans or runs whose id or name matches the typed text."""
    name, typed = params.argument.name, params.argument.value
    of_runs: bool | None = None
    match params.ref:
        case wire.PromptReference(name=prompt) if PROMPTS.get(prompt) == name:
            of_runs = name == "runId"
        case wire.ResourceTemplateReference(uri=uri) if name == "id":
            of_runs = URIS.get(uri)
    if of_runs is None:
        return wire.CompleteResult(completion=wire.Completion(values=[]))
    if of_runs:
        items, more = await open_runs(gateway, context), False
    else:
        items, next_cursor = await open_plans(gateway, context)
        more = next_cursor is not None
    values = [
        item.name
        for item in items
        if item.name.startswith(typed) or typed.casefold() in (item.title or "").casefold()
    ]
    more = more or len(values) > _MAX_COMPLETIONS
    return wire.CompleteResult(
        completion=wire.Completion(values=values[:_MAX_COMPLETIONS], has_more=more)
    )


# Clients may cache these responses, because they hardly change while the process runs. The list of
# tools differs between clients.
CACHE_SECONDS: Final[Mapping[CacheableMethod, CacheHint]] = {
    "server/discover": CacheHint(ttl_ms=300_000, scope="public"),
    "tools/list": CacheHint(ttl_ms=300_000, scope="private"),
    "resources/templates/list": CacheHint(ttl_ms=300_000, scope="public"),
}


@asynccontextmanager
async def _lifespan(
    parts: tuple[ResourceSubscriptions, ReviewElicitation, RunTools], _: object
) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for part in parts:
            part.on_close()


def build_server(
    tools: Mapping[str, PublishedTool],
    gateway: ToolGateway,
    *,
    profile: str = "auto",
    is_persistent: bool = False,
    conversations: ConversationFiles | None = None,
) -> ToolServer:
    """Return an MCP server with the tools of a profile.

    `is_persistent` says that there is only one client, on a persistent connection. The state of
    each conversation is written to `conversations`.
    """
    offered = tools_in_profile(tools, profile)
    schemas = {tool.name: tool.input_schema for tool in offered}
    unlisted = tools_of_workers(tools)
    is_auto, runs = profile == "auto", "get_next_job" in schemas
    always_listed = {t.name for t in tools_in_profile(tools, "research")} if is_auto else {*schemas}
    run_tools = RunTools(gateway, persistent=is_persistent)
    skills = Skills(gateway) if "start_skill" in schemas else None
    resources = Resources(gateway, runs=runs, skills=skills)
    elicitation = ReviewElicitation(gateway, persistent=is_persistent)
    plans, listing = "get_next_step" in schemas, run_tools if is_auto else None
    prompts = Prompts(gateway, plans, runs, skills is not None, listing)
    subscriptions = ResourceSubscriptions(gateway)

    async def list_tools(context: Context, _: object) -> wire.ListToolsResult:
        hidden = frozenset() if shows_apps(context) else APP_TOOLS
        if is_auto and not await run_tools.are_listed(context):
            hidden |= schemas.keys() - always_listed
        return wire.ListToolsResult(tools=[tool for tool in offered if tool.name not in hidden])

    async def call_tool(context: Context, params: wire.CallToolRequestParams) -> ToolResult:
        if params.name not in schemas and params.name not in unlisted:
            raise invalid_params(unknown_tool(tools, params.name, profile))
        result = await elicitation.call(context, params)
        if conversations is not None:
            conversations.record(params, result)
        return result

    server = ToolServer(
        "waybook",
        title="Waybook",
        version=version("waybook"),
        description="The plan book that AI agents and people share.",
        instructions=instructions_for(always_listed, later_runs=is_auto),
        cache_hints=CACHE_SECONDS,
        lifespan=partial(_lifespan, (subscriptions, elicitation, run_tools)),
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.list,
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.read,
        on_list_prompts=prompts.list,
        on_get_prompt=prompts.get,
        on_completion=partial(complete, gateway),
        on_subscriptions_listen=ListenStreams(gateway, announce_tools=is_auto).listen,
    )
    server.announces_tools = is_auto and is_persistent
    if is_persistent:
        subscriptions.serve(server)
    if skills is not None:
        skills.serve(server)
    server.extensions[APPS_EXTENSION] = {"mimeTypes": [MIME_TYPE]}
    if REVIEW in schemas:
        elicitation.serve_tasks(server)
    server.middleware.append(hide_internal_errors)
    server.answer_directly(gateway, schemas.keys() - {REVIEW})
    return server
