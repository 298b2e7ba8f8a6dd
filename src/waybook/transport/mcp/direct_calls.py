"""Answer ordinary tool calls over HTTP without the MCP library, because this is faster.

The responses are the same as those of the library, byte for byte. Unusual calls go to the library.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.requests import Request

from waybook.errors import StaleCredential
from waybook.tracing import TRACE_FIELDS
from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import common_json, compact_json
from waybook.transport.mcp.tools import clean_name, product_of

log = logging.getLogger(__name__)

_CALL: Final = "tools/call"
_MESSAGE_FIELDS: Final = frozenset({"jsonrpc", "id", "method", "params"})
_PARAM_FIELDS: Final = frozenset({"name", "arguments", "_meta"})
_PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - the name of a field
#: Headers that a request may have only once.
_ROUTING_HEADERS: Final = (
    MCP_PROTOCOL_VERSION_HEADER.encode(),
    MCP_METHOD_HEADER.encode(),
    MCP_NAME_HEADER.encode(),
)
_PARAM_HEADER: Final = MCP_PARAM_HEADER_PREFIX.lower().encode()
#: Maximum size of metadata whose check is cached. A client sends the same metadata with every call.
MAX_CACHED_BYTES: Final = 2_000
_MAX_CACHED: Final = 256
#: Maximum number of cached headers. Some clients send different headers for each tool.
_MAX_CACHED_HEADERS: Final = 1_024
_CALL_HEADERS: Final = frozenset({*_ROUTING_HEADERS, b"content-type", b"accept", b"user-agent"})

_RawHeader: TypeAlias = tuple[bytes, bytes]


class DirectCall(NamedTuple):
    id: str | int
    tool: str
    arguments: Mapping[str, object]
    client: str | None
    is_modern: bool


#: Protocol version, tool and client that the headers of a call name.
_CallHeaders: TypeAlias = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class DirectCalls:
    gateway: ToolGateway
    tools: frozenset[str]
    server_info: dict[str, Any]

    def read(self, request: Request, message: Mapping[str, Any]) -> DirectCall | None:
        """Return the tool call in a message, or None if the MCP library must answer."""
        if message.get("method") != _CALL or message.keys() != _MESSAGE_FIELDS:
            return None
        params = message["params"]
        tool, arguments = params.get("name"), params.get("arguments", {})
        is_ordinary = isinstance(tool, str) and tool in self.tools and type(arguments) is dict
        if not is_ordinary or not params.keys() <= _PARAM_FIELDS:
            return None
        # The result is cached, because a client sends the same headers with every call.
        names, every = _CALL_HEADERS, request.scope["headers"]
        own = tuple([h for h in every if h[0] in names or h[0].startswith(_PARAM_HEADER)])
        is_short = sum([len(header[1]) for header in own]) <= MAX_CACHED_BYTES
        headers = (_cached_call_headers if is_short else _read_call_headers)(own)
        if headers is None:
            return None
        version, named_tool, client = headers
        is_modern = version in MODERN_PROTOCOL_VERSIONS
        named = _client_in_metadata(version, params.get("_meta"))
        if named is None or (is_modern and named_tool != tool):
            return None
        return DirectCall(message["id"], tool, arguments, named or client, is_modern)

    async def answer(self, request: Request, call: DirectCall) -> bytes:
        """Execute a tool call, and return the body of the response.

        Raises:
            StaleCredential: the caller's cached credential has changed; nothing was executed.
        """
        try:
            answer = await self.gateway.call_tool(request, call.tool, call.arguments, call.client)
            content = [{"text": compact_json(answer.body), "type": "text"}]
            result: dict[str, Any] = {"content": content, "isError": answer.is_error}
            # The fields have the order in which the library writes them.
            if call.is_modern:
                result["resultType"] = "complete"
            if not answer.is_error:
                result["structuredContent"] = answer.body
            if call.is_modern:
                result["_meta"] = {SERVER_INFO_META_KEY: self.server_info}
        except StaleCredential:
            raise
        except Exception:
            log.exception("the handler of %s broke", _CALL)
            error = {"code": INTERNAL_ERROR, "message": "Internal error"}
            return _encoded({"jsonrpc": "2.0", "id": call.id, "error": error}, call)
        return _encoded({"jsonrpc": "2.0", "id": call.id, "result": result}, call)


class ToolServer(Server[None]):
    """MCP server that can answer ordinary tool calls without the MCP library."""

    direct_calls: DirectCalls | None = None
    #: Whether the server notifies its only client of a changed list of tools.
    announces_tools: bool = False

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=self.announces_tools)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    def answer_directly(self, gateway: ToolGateway, tools: Iterable[str]) -> None:
        self.direct_calls = DirectCalls(gateway, frozenset(tools), self.server_info_stamp)


def _read_call_headers(headers: tuple[_RawHeader, ...]) -> _CallHeaders | None:
    """Return the headers of a tool call, or None if the MCP library must check them."""
    if any(name.startswith(_PARAM_HEADER) for name, _ in headers):
        return None
    values: dict[bytes, str] = {}
    for name, value in headers:
        if name in values and name in _ROUTING_HEADERS:
            return None
        values.setdefault(name, value.decode("latin-1"))
    version, method, tool = (values.get(name) for name in _ROUTING_HEADERS)
    is_modern = version in MODERN_PROTOCOL_VERSIONS
    is_known = (is_modern and method == _CALL) or version in HANDSHAKE_PROTOCOL_VERSIONS
    content_type = values.get(b"content-type", "").partition(";")[0].strip()
    accepted = [media_type.strip() for media_type in values.get(b"accept", "").split(",")]
    is_json = content_type == "application/json" and "application/json" in accepted
    if version is None or not is_known or not is_json:
        return None
    return version, tool, clean_name(product_of(values.get(b"user-agent", "")))


_cached_call_headers: Final = lru_cache(maxsize=_MAX_CACHED_HEADERS)(_read_call_headers)


def _client_in_metadata(version: str, metadata: object) -> str | None:
    """Return the client's name in the metadata of a call, or an empty text if it has none.

    Return None if the MCP library must check the metadata.
    """
    is_modern = version in MODERN_PROTOCOL_VERSIONS
    if metadata is None:
        return None if is_modern else ""
    if not isinstance(metadata, dict):
        return None
    token = metadata.get(_PROGRESS_TOKEN, "")
    if type(token) is not str and type(token) is not int:
        return None
    # The trace context differs in every call, so it is not part of the cache key.
    own = {k: v for k, v in metadata.items() if k not in TRACE_FIELDS or type(v) is not str}
    encoded = orjson.dumps({**own, _PROGRESS_TOKEN: ""})
    return _check_metadata(version, encoded) if len(encoded) <= MAX_CACHED_BYTES else None


@lru_cache(maxsize=_MAX_CACHED)
def _check_metadata(version: str, encoded: bytes) -> str | None:
    metadata = orjson.loads(encoded)
    try:
        validate_client_request(_CALL, version, {"name": "", "_meta": metadata})
    except ValidationError:
        return None
    if version not in MODERN_PROTOCOL_VERSIONS:
        return ""
    if metadata.get(PROTOCOL_VERSION_META_KEY) != version:
        return None
    connection = Connection.from_envelope(
        version, metadata.get(CLIENT_INFO_META_KEY), metadata.get(CLIENT_CAPABILITIES_META_KEY)
    )
    if connection.client_capabilities is None:
        return None
    params = connection.client_params
    return (clean_name(params.client_info.name) if params else None) or ""


def _encoded(message: Mapping[str, object], call: DirectCall) -> bytes:
    """Encode a message as the MCP library does."""
    if not call.is_modern:
        return to_json(message)
    text = common_json(message)
    # The library escapes everything that is not printable ASCII.
    if text is not None and text.isascii() and b"\x7f" not in text:
        return text
    return json.dumps(message, separators=(",", ":")).encode()
