"""MCP client extension that tells the server that the client can show MCP Apps."""

from typing import Any

from mcp.client.extension import ClientExtension

from waybook.transport.jsonrpc import APPS_EXTENSION
from waybook.transport.mcp.resources import MIME_TYPE


class Apps(ClientExtension):
    identifier = APPS_EXTENSION

    def settings(self) -> dict[str, Any]:
        return {"mimeTypes": [MIME_TYPE]}
