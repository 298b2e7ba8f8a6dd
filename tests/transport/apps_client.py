"""The declaration of a client that shows apps."""

from typing import Any

from mcp.client.extension import ClientExtension

from waybook.transport.jsonrpc import APPS_EXTENSION
from waybook.transport.mcp.resources import MIME_TYPE


class Apps(ClientExtension):
    """Extension that a host of apps declares."""

    identifier = APPS_EXTENSION

    def settings(self) -> dict[str, Any]:
        """Return the type of apps that the client shows."""
        return {"mimeTypes": [MIME_TYPE]}
