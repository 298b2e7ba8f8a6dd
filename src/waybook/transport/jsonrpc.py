"""Checks of JSON-RPC messages before the MCP library parses them, and errors of the MCP protocol.

With these checks, the same messages get the same errors under all revisions of the MCP
specification. Errors contain no internal details and no secrets.
"""

import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import orjson
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, ErrorData
from pydantic import ValidationError
from pydantic_core import from_json

from waybook.app.request.caller import Answer
from waybook.redaction import redact, redact_json

MESSAGE_LIMIT: Final = 1024 * 1024

#: Only this many bytes at the beginning and at the end of a message are searched for its id.
_EDGE_BYTES: Final = 1_024
NOT_JSON: Final = ErrorData(code=PARSE_ERROR, message="Parse error")
NOT_A_MESSAGE: Final = ErrorData(
    code=INVALID_REQUEST, message="The body must be one JSON-RPC 2.0 message"
)

# Only the parameters can be very large, so the id is near the beginning or the end.
_ID: Final = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{0,200}")\s*'
_OTHER: Final = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*'
_ID_AHEAD: Final = re.compile(rb"\s*\{\s*(?:" + _OTHER + rb",\s*){0,2}" + _ID + b",")
_ID_BEHIND: Final = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _OTHER + rb"){0,2}\}\s*\Z")


def read_message(body: bytes) -> Mapping[str, object] | ErrorData:
    """Return the JSON-RPC message in a request body, or the reason for rejecting the body.

    >>> read_message(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    {'jsonrpc': '2.0', 'id': 1, 'method': 'ping'}
    >>> read_message(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}').message
    'Parse error'
    """
    try:
        message = from_json(body, allow_inf_nan=False)
    except ValueError:
        return NOT_JSON
    is_message = False
    match message:
        case {"jsonrpc": "2.0", "method": str()}:
            is_message = isinstance(message.get("params", {}), dict)
            is_message = is_message and _is_id(message.get("id", 0))
        case {"jsonrpc": "2.0", "id": identity, "result": Mapping()}:
            is_message = _is_id(identity)
        case {"jsonrpc": "2.0", "id": identity, "error": {"code": int(), "message": str()}}:
            is_message = identity is None or _is_id(identity)
    return message if is_message else NOT_A_MESSAGE


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def id_of(beginning: bytes, end: bytes) -> str | int | None:
    """Return the JSON-RPC id near the beginning or the end of a request, or None.

    >>> id_of(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,', b'"id":9}}')
    7
    >>> id_of(b'{"method":"tools/call","params":{"id":8,', b'"id":9},"jsonrpc":"2.0","id":"a"}')
    'a'
    >>> id_of(b'{"method":"tools/call","params":{"id":8,', b'"id":9}}') or "no id"
    'no id'
    """
    match = _ID_AHEAD.match(beginning) or _ID_BEHIND.search(end)
    identity: str | int | None = None
    if match:
        with suppress(ValueError):
            identity = from_json(match[1])
    return identity


def outline_message(body: bytes) -> Mapping[str, object]:
    """Return the id of a large message without parsing the message.

    >>> outline_message(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":1}}')
    {'id': 7}
    """
    identity = id_of(body[:_EDGE_BYTES], body[-_EDGE_BYTES:])
    return {} if identity is None else {"id": identity}


#: Session id of HTTP clients that can show MCP apps. It gives no rights.
APPS_SESSION: Final = "apps"
APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"


def declares_apps(message: Mapping[str, object]) -> bool:
    """Return whether this is an `initialize` request of a client that shows MCP apps."""
    match message:
        case {
            "method": "initialize",
            "params": {"capabilities": {"extensions": dict() as extensions}},
        }:
            return APPS_EXTENSION in extensions
    return False


def tool_called(message: Mapping[str, object]) -> str | None:
    match message:
        case {"method": "tools/call", "params": {"name": str() as name}}:
            return name
    return None


def may_wait(message: Mapping[str, object]) -> bool:
    """Return whether the message calls a tool that may wait before it answers.

    >>> may_wait({"method": "tools/call", "params": {"arguments": {"waitSeconds": 55}}})
    True
    """
    match message:
        case {"method": "tools/call", "params": {"arguments": {"waitSeconds": seconds}}}:
            return bool(seconds)
    return False


def error_body(code: str, message: str, **details: object) -> dict[str, object]:
    """Return the body of a transport error, in the format of the tool dispatcher.

    >>> error_body("TOO_LARGE", "The body is too large.", limit=1048576)["error"]["code"]
    'TOO_LARGE'
    """
    fields = {"code": code, "message": redact(message), "details": redact_json(details)}
    return {"error": {**fields, "next": None}}


#: Numbers and nulls that orjson and `json` may write differently.
_WRITTEN_DIFFERENTLY: Final = re.compile(rb"[:,\[](?:-?(?:[0-9.]+e|0\.0000)|null)")

_STRICT: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def compact_json(body: Mapping[str, object]) -> str:
    """Return a value as JSON without optional whitespace.

    >>> compact_json({"plan": "Größe", "steps": [1, 2]})
    '{"plan":"Größe","steps":[1,2]}'
    """
    text = common_json(body)
    if text is not None:
        return text.decode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def common_json(body: Mapping[str, object]) -> bytes | None:
    r"""Return a value as compact JSON if orjson and `json` write it alike, else None.

    >>> common_json({"plan": "Größe"}), common_json({"cost": 1e-7})
    (b'{"plan":"Gr\xc3\xb6\xc3\x9fe"}', None)
    """
    try:
        text = orjson.dumps(body, option=_STRICT)
    except TypeError:
        return None
    return None if _WRITTEN_DIFFERENTLY.search(text) else text


Context = ServerRequestContext[None]

_CLIENT_ERRORS: Final = frozenset({"NOT_FOUND", "INVALID_INPUT", "TOO_LARGE"})
#: Maximum number of characters of a client's text that an error message quotes.
MAX_ECHO_LENGTH: Final = 500

logger = logging.getLogger(__name__)


def code_of(answer: Answer) -> str | None:
    match answer.body:
        case {"error": {"code": str() as code}} if answer.is_error:
            return code
    return None


def invalid_params(message: str, **data: object) -> MCPError:
    return MCPError(INVALID_PARAMS, _shorten(message), _brief_data(data) or None)


def error_from_answer(answer: Answer, message: str) -> MCPError:
    callers_fault = code_of(answer) in _CLIENT_ERRORS
    return MCPError(INVALID_PARAMS if callers_fault else INTERNAL_ERROR, message, answer.body)


async def hide_internal_errors(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Replace the text of an unexpected exception with a generic error message."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        fields = {"message": _shorten(error.message), "data": _brief_data(error.data)}
        error.error = error.error.model_copy(update=fields)
        raise
    except ValidationError:
        raise
    except Exception as error:
        logger.exception("the handler of %s broke", ctx.method)
        raise MCPError(INTERNAL_ERROR, "Internal error") from error


def _shorten(text: str) -> str:
    """Return the text with secrets masked, cut to `MAX_ECHO_LENGTH` characters.

    >>> _shorten("Unknown tool: " + 1000 * "x")[-4:], len(_shorten(1000 * "x"))
    ('xxx…', 501)
    """
    # Mask secrets before cutting the text, because `redact` does not recognize half a secret.
    redacted = redact(text[: 4 * MAX_ECHO_LENGTH])
    return redacted if len(redacted) <= MAX_ECHO_LENGTH else f"{redacted[:MAX_ECHO_LENGTH]}…"


def _brief_data(data: object) -> object:
    match data:
        case dict():
            return {
                name: _shorten(value) if isinstance(value, str) else redact_json(value)
                for name, value in data.items()
            }
        case str():
            return _shorten(data)
        case _:
            return redact_json(data)
