"""Clients of every supported MCP version get answers over a real port, even to invalid messages."""

import asyncio
from typing import Literal

import httpx2
import pytest
from mcp import Client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from transport.fake_dispatcher import TOOLS
from transport.messages import LEGACY, MODERN, make_request, modern_headers

pytestmark = pytest.mark.asyncio(loop_scope="module")

Era = Literal["legacy", "auto", "2026-07-28"]
EVERY_ERA = pytest.mark.parametrize("era", ["legacy", "auto", "2026-07-28"])


@EVERY_ERA
async def test_client_of_every_protocol_version_makes_concurrent_calls(
    address: str, era: Era
) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        listed = await client.list_tools()
        assert (await client.list_resources()).resources
        assert (await client.list_prompts()).prompts
        results = await asyncio.gather(
            *(client.call_tool("get_next_step", {"planId": str(number)}) for number in range(20))
        )
    assert [tool.name for tool in listed.tools] == list(TOOLS)
    assert [result.structured_content for result in results] == [
        {"tool": "get_next_step", "arguments": {"planId": str(number)}} for number in range(20)
    ]


# Tests that send raw MCP messages, without an MCP client.


EVERY_HANDSHAKE = pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)


async def test_mcp_library_supports_the_documented_protocol_versions() -> None:
    assert [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS] == [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    ]


@EVERY_HANDSHAKE
async def test_mcp_handshake_returns_the_protocol_version_of_the_client(
    http: httpx2.AsyncClient, version: str
) -> None:
    hello = make_request(
        "initialize",
        protocolVersion=version,
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    headers = {key: value for key, value in LEGACY.items() if key != "mcp-protocol-version"}
    reply = await http.post("/mcp", headers=headers, content=hello)
    result = reply.json()["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "waybook"
    assert result["instructions"]
    assert set(result["capabilities"]) == {"tools", "resources", "prompts", "completions"}


async def test_client_of_newest_mcp_version_calls_tools_without_a_handshake(
    http: httpx2.AsyncClient,
) -> None:
    call = make_request("tools/call", name="get_next_step", arguments={"planId": "1"})
    headers = modern_headers("tools/call", "get_next_step")
    reply = await http.post("/mcp", headers=headers, content=call)
    assert reply.json()["result"]["structuredContent"]["arguments"] == {"planId": "1"}
    reply = await http.post(
        "/mcp", headers=modern_headers("server/discover"), content=make_request("server/discover")
    )
    discovered = reply.json()["result"]
    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert discovered["instructions"]


# Tests with invalid messages.


CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_next_step",'

NOT_JSON = {
    "nothing": b"",
    "half": b'{"jsonrpc":',
    "words": b"hello",
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep inside": f'{CALL}"arguments":{{"a":{"[" * 1000}{"]" * 1000}}}}}}}'.encode(),
    "NUL": b"\x00",
    "NUL in a string": f'{CALL}"arguments":{{"a":"\x00"}}}}}}'.encode(),
    "lone surrogate": f'{CALL}"arguments":{{"a":"\\ud800"}}}}}}'.encode(),
    "lone surrogate as a key": f'{CALL}"arguments":{{"\\udfff":1}}}}}}'.encode(),
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "not UTF-8": b'{"jsonrpc":"2.0","method":"\xff"}',
    "UTF-16": '{"jsonrpc":"2.0"}'.encode("utf-16"),
    "not a number": f'{CALL}"arguments":{{"a":NaN}}}}}}'.encode(),
    "huge integer": f'{CALL}"arguments":{{"a":{"9" * 5000}}}}}}}'.encode(),
}
NOT_A_MESSAGE = {
    "null": b"null",
    "number": b"1",
    "string": b'"tools/list"',
    "batch": b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    "empty": b"{}",
    "no version": b'{"id":1,"method":"ping"}',
    "other version": b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "method is a number": b'{"jsonrpc":"2.0","id":1,"method":1}',
    "id is null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "id is true": b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "id is a fraction": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "id is a list": b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
    "params is a list": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    "params is null": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
    "result without id": b'{"jsonrpc":"2.0","result":{}}',
    "result is a list": b'{"jsonrpc":"2.0","id":1,"result":[]}',
    "error without id": b'{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}',
    "error is a string": b'{"jsonrpc":"2.0","id":1,"error":"no"}',
}
STRANGE = {
    "unknown method": make_request("no/such/method"),
    "NUL in the method": make_request("tools\0call"),
    "NUL in an argument": make_request("tools/call", name="get_next_step", arguments={"a": "\0"}),
    "no name": make_request("tools/call"),
    "name is a number": make_request("tools/call", name=1),
    "arguments is a list": make_request("tools/call", name="get_next_step", arguments=[]),
    "arguments is a string": make_request("tools/call", name="get_next_step", arguments="{}"),
    "cursor is a number": make_request("tools/list", cursor=1),
    "meta is a list": make_request("tools/list", _meta=[]),
    "token is an object": make_request("tools/list", _meta={"progressToken": {}}),
    "large integer": make_request("tools/call", name="get_next_step", arguments={"n": 10**4000}),
    "infinite": f'{CALL}"arguments":{{"a":1e400}}}}}}'.encode(),
    "infinite in digits": f'{CALL}"arguments":{{"a":-{"9" * 400}.5}}}}}}'.encode(),
    "large id": f'{{"jsonrpc":"2.0","id":{10**4000},"method":"tools/list"}}'.encode(),
    "large exponent in words": make_request(
        "tools/call", name="get_next_step", arguments={"1e400": 1}
    ),
    "unknown prompt": make_request("prompts/get", name="\u202e"),
    "strange uri": make_request("resources/read", uri="waybook://plans/../../etc"),
    "initialize with nothing": make_request("initialize"),
    "unknown notification": b'{"jsonrpc":"2.0","method":"notifications/nonsense","params":{}}',
    "stray response": b'{"jsonrpc":"2.0","id":9,"result":{}}',
    "stray error": b'{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"no"}}',
    "stray error about nothing": b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}',
}
BOTH_ERAS = pytest.mark.parametrize("headers", [LEGACY, MODERN], ids=["legacy", "modern"])


def keeps_silent(reply: httpx2.Response) -> bool:
    return not any(word in reply.text for word in ("Traceback", 'File "', "pydantic", "validation"))


@BOTH_ERAS
@pytest.mark.parametrize("name", NOT_JSON)
async def test_mcp_endpoint_returns_a_parse_error_for_invalid_json(
    http: httpx2.AsyncClient, headers: dict[str, str], name: str
) -> None:
    reply = await http.post("/mcp", headers=headers, content=NOT_JSON[name])
    assert reply.status_code == 400
    assert reply.json() == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": "Parse error"},
    }


@BOTH_ERAS
@pytest.mark.parametrize("name", NOT_A_MESSAGE)
async def test_mcp_endpoint_returns_invalid_request_for_an_invalid_message(
    http: httpx2.AsyncClient, headers: dict[str, str], name: str
) -> None:
    reply = await http.post("/mcp", headers=headers, content=NOT_A_MESSAGE[name])
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == -32600
    assert keeps_silent(reply)


@BOTH_ERAS
@pytest.mark.parametrize("name", STRANGE)
async def test_malformed_mcp_content_returns_a_documented_status(
    http: httpx2.AsyncClient, headers: dict[str, str], name: str
) -> None:
    reply = await http.post("/mcp", headers=headers, content=STRANGE[name])
    assert reply.status_code in {200, 202, 400, 404}
    assert keeps_silent(reply)


@pytest.mark.parametrize(
    "changed",
    [
        {"content-type": "text/plain"},
        {"content-type": ""},
        {"accept": "text/html"},
        {"mcp-protocol-version": "v999"},
        {"mcp-protocol-version": ""},
        {"mcp-session-id": "made up"},
        {"last-event-id": "made up"},
        {"mcp-method": "other"},
    ],
    ids=str,
)
@BOTH_ERAS
async def test_unusual_mcp_headers_return_a_documented_status(
    http: httpx2.AsyncClient, headers: dict[str, str], changed: dict[str, str]
) -> None:
    reply = await http.post(
        "/mcp", headers={**headers, **changed}, content=make_request("tools/list")
    )
    assert reply.status_code in {200, 400, 406}
    assert keeps_silent(reply)
