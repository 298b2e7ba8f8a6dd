"""Waybook's MCP server with the tools, prompts and resources that the conformance suite expects.

Waybook itself answers all other requests.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import mcp_types as wire
from mcp.server.context import HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from pydantic import BaseModel

from transport.conformance.fixtures import PROMPTS, STATIC, Result, get_prompt, handlers
from transport.conformance.reviews import TASK_TOOLS, as_review
from waybook.transport.jsonrpc import Context
from waybook.transport.mcp.direct_calls import ToolServer

EVERY_KEYWORD: Final[Mapping[str, object]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
IN_A_HEADER: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}
ANYTHING: Final[Mapping[str, object]] = {"type": "object"}
SCHEMAS: Final = {"json_schema_2020_12_tool": EVERY_KEYWORD, "test_header": IN_A_HEADER}

ParamsT = TypeVar("ParamsT", bound=BaseModel)
Fixture = Callable[[Context, ParamsT], Awaitable[Result | None]]


def lay_over(server: ToolServer) -> ToolServer:
    bus = InMemorySubscriptionBus()
    tools = handlers(bus)
    listed = [
        wire.Tool(name=name, description=name, input_schema=dict(SCHEMAS.get(name, ANYTHING)))
        for name in (*tools, *sorted(TASK_TOOLS))
    ]
    prompts = [
        wire.Prompt(
            name=name,
            description=name,
            arguments=[wire.PromptArgument(name=gap, required=True) for gap in gaps],
        )
        for name, gaps in PROMPTS.items()
    ]
    resources = [
        wire.Resource(uri=uri, name=uri, description=uri, mime_type=str(content["mimeType"]))
        for uri, content in STATIC.items()
    ]

    async def call_tool(ctx: Context, params: wire.CallToolRequestParams) -> Result | None:
        tool = tools.get(params.name)
        return await tool(ctx, params) if tool else None

    async def give_prompt(ctx: Context, params: wire.GetPromptRequestParams) -> Result | None:
        return await get_prompt(ctx, params) if params.name in PROMPTS else None

    async def read(_: Context, params: wire.ReadResourceRequestParams) -> Result | None:
        content = STATIC.get(params.uri)
        return {"contents": [{"uri": params.uri, **content}]} if content else None

    review_task_tools(server)
    before(server, "tools/call", wire.CallToolRequestParams, wire.CallToolResult, call_tool)
    before(server, "prompts/get", wire.GetPromptRequestParams, wire.GetPromptResult, give_prompt)
    before(server, "resources/read", wire.ReadResourceRequestParams, wire.ReadResourceResult, read)
    append_items(server, "tools/list", "tools", listed)
    append_items(server, "prompts/list", "prompts", prompts)
    append_items(server, "resources/list", "resources", resources)
    server.add_request_handler(
        "subscriptions/listen", wire.SubscriptionsListenRequestParams, ListenHandler(bus)
    )
    server.get_tool_input_schema = SCHEMAS.get
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience="waybook"))
    return server


def review_task_tools(server: Server[None]) -> None:
    """Let the server handle a call of a tool in `TASK_TOOLS` as a request for a review."""
    own = server.get_request_handler("tools/call")
    assert own is not None

    async def handle(ctx: Context, params: wire.CallToolRequestParams) -> HandlerResult:
        return await own.handler(ctx, as_review(params) if params.name in TASK_TOOLS else params)

    server.add_request_handler("tools/call", wire.CallToolRequestParams, handle)


def before(
    server: Server[None],
    method: str,
    params_type: type[ParamsT],
    result_type: type[BaseModel],
    fixture: Fixture[ParamsT],
) -> None:
    """Let `fixture` answer requests, and the server's own handler if `fixture` returns None."""
    own = server.get_request_handler(method)
    assert own is not None

    async def handle(ctx: Context, params: ParamsT) -> HandlerResult:
        result = await fixture(ctx, params)
        if result is None:
            return await own.handler(ctx, params)
        asks = result.get("resultType") == "input_required"
        return result if asks else result_type.model_validate(result)

    server.add_request_handler(method, params_type, handle)


def append_items(server: Server[None], method: str, key: str, extra: Sequence[BaseModel]) -> None:
    """Append `extra` to a list that the server returns, such as the list of tools."""
    own = server.get_request_handler(method)
    assert own is not None

    async def handle(ctx: Context, params: wire.PaginatedRequestParams) -> HandlerResult:
        listed = await own.handler(ctx, params)
        assert isinstance(listed, BaseModel)
        return listed.model_copy(update={key: [*getattr(listed, key), *extra]})

    server.add_request_handler(method, wire.PaginatedRequestParams, handle)
