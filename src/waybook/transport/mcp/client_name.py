"""The program that calls a tool over MCP: its name, and the extensions that it supports."""

from typing import Any, Final

import mcp_types as wire
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from waybook.redaction import redact
from waybook.transport.errors import Context

#: Clients choose their names, so the length is limited.
MAX_CLIENT_LENGTH: Final = 80


def client_name(context: Context) -> str | None:
    params = context.session.client_params
    if params is not None:
        return clean_name(params.client_info.name)
    agent = context.request.headers.get("user-agent", "") if context.request else ""
    return clean_name(product_of(agent))


def product_of(user_agent: str) -> str:
    """Return the first product name in a User-Agent header, without its version.

    >>> product_of("claude-code/2.1.3 (cli)"), product_of("node"), product_of("")
    ('claude-code', 'node', '')
    """
    return user_agent.partition("/")[0].partition("(")[0]


def clean_name(name: str) -> str | None:
    r"""Return a name on one line, cut and without secrets, or None if it is empty.

    >>> clean_name(" Cursor\n"), clean_name("\0")
    ('Cursor', None)
    """
    printable = "".join(character if character.isprintable() else " " for character in name)
    return redact(" ".join(printable.split()))[:MAX_CLIENT_LENGTH] or None


TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"


def declares_tasks(context: Context) -> bool:
    """Return whether the client supports the tasks extension."""
    if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    capabilities = context.session.client_capabilities
    return TASKS_EXTENSION in ((capabilities and capabilities.extensions) or {})


def require_tasks(context: Context) -> None:
    if not declares_tasks(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        message = f"This request needs a client that declares the extension {TASKS_EXTENSION}"
        raise MCPError(wire.MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)
