"""All published MCP protocol revisions, tested with raw messages."""

import httpx2
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from transport.messages import LEGACY, make_request, modern_headers

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVERY_HANDSHAKE = pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)


async def test_protocol_library_supports_documented_protocol_versions() -> None:
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
        clientInfo={"name": "somebody", "version": "1"},
    )
    headers = {key: value for key, value in LEGACY.items() if key != "mcp-protocol-version"}
    reply = await http.post("/mcp", headers=headers, content=hello)
    result = reply.json()["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "waybook"
    assert result["instructions"]
    assert set(result["capabilities"]) == {"tools", "resources", "prompts", "completions"}


async def test_newest_mcp_version_can_call_tools_without_a_handshake(
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
