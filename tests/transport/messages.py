"""MCP messages as clients of older and newer versions of MCP send them."""

import json

LEGACY = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2025-11-25",
}
MODERN = {**LEGACY, "mcp-protocol-version": "2026-07-28"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def make_request(method: str, **params: object) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    return json.dumps(message).encode()


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """Return the headers that a client of a newer MCP version sends with this MCP method."""
    return {**MODERN, "mcp-method": method, **({"mcp-name": name} if name else {})}
