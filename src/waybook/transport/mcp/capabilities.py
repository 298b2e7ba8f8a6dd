"""Protocol extensions that a client supports."""

from typing import Any, Final

import mcp_types as wire
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from waybook.transport.errors import Context

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
