"""Tests a client's configuration: connects as the client would, and calls `ping`."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TextIO

from mcp import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from waybook.cli.client_config.clients import TOKEN_VARIABLE

#: The time limit is long, because the first start creates a database.
MAX_PROBE_SECONDS: Final = 90.0
MAX_ERROR_LENGTH: Final = 500


class ProbeFailed(Exception):
    """The configured server did not answer."""


def probe(entry: Mapping[str, Any], token: str | None) -> Mapping[str, str]:
    """Connect to the server of this entry, and return its answers to three requests as text.

    Raises:
        ProbeFailed: the server does not start, does not answer in time, or refuses the call.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        try:
            return asyncio.run(_probe(entry, token, log))
        except TimeoutError:
            reason = f"no answer within {MAX_PROBE_SECONDS:.0f} seconds"
        except ProbeFailed as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the SDK raises errors of many libraries
            reason = _innermost(error)
        log.seek(0)
        lines = [line.strip() for line in log if line.strip()]
    raise ProbeFailed("; ".join([reason, *lines[-1:]])[:MAX_ERROR_LENGTH])


async def _probe(entry: Mapping[str, Any], token: str | None, log: TextIO) -> Mapping[str, str]:
    async with (
        asyncio.timeout(MAX_PROBE_SECONDS),
        _transport(entry, token, log) as transport,
        McpClient(transport, mode="legacy") as client,
    ):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("ping", {})
        if answer.is_error or answer.structured_content is None:
            texts = [str(part.text) for part in answer.content if hasattr(part, "text")]
            raise ProbeFailed(f"the tool ping was refused: {' '.join(texts)}")
        info = client.server_info
        server = f"{info.name} {info.version}" if info else "unknown"
        return {
            "initialize": f"{server}, protocol {client.protocol_version}",
            "tools/list": f"{len(tools)} tools: {', '.join(tools)}",
            "ping": f"the database answered at {answer.structured_content.get('now')}",
        }


@asynccontextmanager
async def _transport(
    entry: Mapping[str, Any], token: str | None, log: TextIO
) -> AsyncIterator[Any]:
    if "command" in entry:
        command = entry["command"]
        words = command if isinstance(command, list) else [command, *entry["args"]]
        server = StdioServerParameters(command=words[0], args=words[1:])
        yield stdio_client(server, errlog=log)
        return
    url = entry.get("url") or entry.get("httpUrl")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with create_mcp_http_client(headers=headers) as http:
        yield streamable_http_client(str(url), http_client=http)


def expand_token(entry: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """Return the token that a client would send with this entry, if any."""
    if "bearer_token_env_var" in entry:
        return environment.get(entry["bearer_token_env_var"])
    headers = entry.get("headers") or entry.get("http_headers") or {}
    authorization = str(headers.get("Authorization", "")).removeprefix("Bearer ")
    if authorization.startswith(("${", "{env:")):
        return environment.get(TOKEN_VARIABLE)
    return authorization or None


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).strip() or type(error).__name__
