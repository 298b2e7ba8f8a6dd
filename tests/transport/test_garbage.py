"""Arbitrary input to the MCP endpoint gets a defined answer, never a 500 or a stack trace."""

import httpx2
import pytest

from transport.messages import LEGACY, MODERN, make_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

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
