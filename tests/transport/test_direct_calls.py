"""The server answers ordinary tool calls itself, exactly as the MCP library would."""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request

from transport.fake_dispatcher import (
    RecordingDispatcher,
    make_app,
    make_gateway,
    make_refusal,
    make_server,
    serve,
)
from transport.messages import LEGACY, META, modern_headers
from waybook.app.request.caller import Answer, Caller
from waybook.transport.jsonrpc import read_message
from waybook.transport.mcp.direct_calls import DirectCall, DirectCalls
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOL = "get_next_step"
#: Tool for which the fake dispatcher returns an empty reply.
EMPTY = "list_active_plans"
MODERN = modern_headers("tools/call", TOOL)
CLIENT = {"name": "claude-code", "version": "2.1.3"}
INFO = "io.modelcontextprotocol/clientInfo"
ARGUMENTS: dict[str, Any] = {
    "planId": "grün\u2028",
    "none": None,
    "numbers": [1e-7, 1e22, 0.1, -1, 2**60],
    "nested": [None, {"none": None, "flag": True}],
}
ANSWERS = {"submit_step_result": make_refusal("STALE_ATTEMPT", "grün"), EMPTY: Answer({})}


class BrokenDispatcher(RecordingDispatcher):
    async def dispatch(self, caller: Caller, tool: str, arguments: Mapping[str, object]) -> Answer:
        if tool == "store_research":
            raise RuntimeError("a secret detail")
        return await super().dispatch(caller, tool, arguments)


def call(tool: str = TOOL, identity: object = 1, **params: object) -> dict[str, Any]:
    named = {"name": tool, "_meta": META, "arguments": ARGUMENTS, **params}
    return {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": named}


@dataclass(frozen=True, slots=True)
class Sent:
    message: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=lambda: MODERN)


def without(params: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in names}


def with_params(params: Mapping[str, Any]) -> dict[str, Any]:
    return {**call(), "params": params}


PARAMS = call()["params"]
ORDINARY = {
    "modern": Sent(call()),
    "text as id": Sent(call(identity="grün")),
    "client info": Sent(call(_meta={**META, INFO: CLIENT})),
    "trace context": Sent(call(_meta={**META, "traceparent": "00-a", "tracestate": "b=1"})),
    "progress token": Sent(call(_meta={**META, "progressToken": 7})),
    "no arguments": Sent(with_params(without(PARAMS, "arguments"))),
    "error": Sent(call("submit_step_result"), modern_headers("tools/call", "submit_step_result")),
    "empty reply": Sent(
        call("list_active_plans"), modern_headers("tools/call", "list_active_plans")
    ),
    "broken": Sent(call("store_research"), modern_headers("tools/call", "store_research")),
    "legacy error": Sent(call("submit_step_result"), LEGACY),
    "infinite number": Sent(call(arguments={"number": 10**400})),
    "legacy broken": Sent(call("store_research"), LEGACY),
    "legacy without metadata": Sent(with_params(without(PARAMS, "_meta")), LEGACY),
    "legacy client with tokens": Sent(call(_meta={"progressToken": "a", "other": [1]}), LEGACY),
    **{
        version: Sent(call(), {**LEGACY, "mcp-protocol-version": version})
        for version in HANDSHAKE_PROTOCOL_VERSIONS
    },
}
UNUSUAL = {
    "unknown tool": Sent(call("fly"), modern_headers("tools/call", "fly")),
    "other tool in header": Sent(call(), modern_headers("tools/call", "start_run")),
    "other method in header": Sent(call(), modern_headers("tools/list", TOOL)),
    "no tool in header": Sent(call(), modern_headers("tools/call")),
    "no revision": Sent(call(), without(MODERN, "mcp-protocol-version")),
    "unknown revision": Sent(call(), {**MODERN, "mcp-protocol-version": "2031-01-01"}),
    "header with an argument": Sent(call(), {**MODERN, "mcp-param-plan": "1"}),
    "no metadata": Sent(with_params(without(PARAMS, "_meta"))),
    "metadata of another revision": Sent(
        call(_meta={**META, "io.modelcontextprotocol/protocolVersion": "2025-11-25"})
    ),
    "wrong capabilities": Sent(
        call(_meta={**META, "io.modelcontextprotocol/clientCapabilities": 1})
    ),
    "wrong progress token": Sent(call(_meta={**META, "progressToken": []}), LEGACY),
    "metadata is a list": Sent(call(_meta=[]), LEGACY),
    "long metadata": Sent(call(_meta={**META, "long": "x" * 3_000})),
    "arguments are a list": Sent(call(arguments=[])),
    "arguments are null": Sent(call(arguments=None)),
    "name is a list": Sent(call(name=[TOOL])),
    "unknown parameter": Sent(call(more=1)),
    "state of a form": Sent(call(requestState="{}")),
    "unknown field": Sent({**call(), "more": 1}),
    "notification": Sent(without(call(), "id")),
    "no parameters": Sent(without(call(), "params")),
    "other method": Sent({**call(), "method": "tools/list"}, modern_headers("tools/list")),
    "accepts HTML only": Sent(call(), {**MODERN, "accept": "text/html"}),
    "accepts everything": Sent(call(), {**MODERN, "accept": "*/*"}),
    "text": Sent(call(), {**LEGACY, "content-type": "text/plain"}),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both() -> AsyncIterator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Yield clients of two servers; only the first server answers without the MCP library."""
    servers = [make_server(BrokenDispatcher(ANSWERS), profile="all") for _ in range(2)]
    servers[1].direct_calls = None
    apps = [make_app(server) for server in servers]
    async with (
        serve(apps[0]) as direct,
        serve(apps[1]) as library,
        httpx2.AsyncClient(base_url=direct, trust_env=False) as first,
        httpx2.AsyncClient(base_url=library, trust_env=False) as second,
    ):
        yield first, second


@pytest.mark.parametrize("name", [*ORDINARY, *UNUSUAL])
async def test_direct_answer_to_tool_call_equals_answer_of_mcp_library(
    both: tuple[httpx2.AsyncClient, httpx2.AsyncClient], name: str
) -> None:
    sent = {**ORDINARY, **UNUSUAL}[name]
    body = json.dumps(sent.message).encode()
    direct, library = [
        await client.post("/mcp", headers={**sent.headers}, content=body) for client in both
    ]
    assert direct.content == library.content
    assert direct.status_code == library.status_code
    assert without(direct.headers, "date") == without(library.headers, "date")


def read(sent: Sent) -> DirectCall | None:
    """Return the call if the server answers it directly, or None if the MCP library answers it."""
    headers = [(name.encode(), value.encode()) for name, value in sent.headers.items()]
    request = Request({"type": "http", "method": "POST", "headers": headers})
    message = read_message(json.dumps(sent.message).encode())
    assert isinstance(message, Mapping)
    direct = make_server(profile="all").direct_calls
    assert isinstance(direct, DirectCalls)
    return direct.read(request, message)


@pytest.mark.parametrize("name", ORDINARY)
async def test_ordinary_tool_call_is_answered_without_the_mcp_library(name: str) -> None:
    direct = read(ORDINARY[name])
    assert direct is not None
    assert direct.tool == ORDINARY[name].message["params"]["name"]


@pytest.mark.parametrize("name", UNUSUAL)
async def test_unusual_tool_call_is_answered_by_the_mcp_library(name: str) -> None:
    assert read(UNUSUAL[name]) is None


async def test_request_for_a_review_is_answered_by_the_mcp_library() -> None:
    tools = published_tools()
    direct = build_server(tools, make_gateway(RecordingDispatcher()), profile="all").direct_calls
    assert direct is not None
    assert tools.keys() - direct.tools == {"request_user_review"}
