"""The map app of the MCP Apps extension: its discovery and its content."""

import re

import pytest
from mcp import Client
from mcp_types import TextResourceContents

from transport.fake_dispatcher import RecordingDispatcher, make_gateway
from waybook.dag.diagram.svg import style_sheet
from waybook.transport.jsonrpc import APPS_EXTENSION
from waybook.transport.mcp.resources import MIME_TYPE, URI, page
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import PROFILES, published_tools

MAX_BYTES = 10_000


def make_client(profile: str = "auto") -> Client:
    server = build_server(published_tools(), make_gateway(RecordingDispatcher()), profile=profile)
    return Client(server, mode="auto")


@pytest.mark.parametrize("profile", PROFILES)
async def test_status_tools_link_to_the_map_app(profile: str) -> None:
    async with make_client(profile) as client:
        tools = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
    shown = {name for name, meta in tools.items() if "resourceUri" in meta.get("ui", {})}
    of_plans, of_runs = (
        {"get_plan_status", "request_user_review"},
        {"get_dag_map", "get_run_progress"},
    )
    assert shown == (of_plans | of_runs) & set(tools)
    assert shown
    assert all(tools[name] == {"ui": {"resourceUri": URI}} for name in shown)
    assert published_tools()["draw_map"].listed.meta == {"ui": {"visibility": ["app"]}}


async def test_map_app_resource_has_mime_type_and_metadata() -> None:
    async with make_client() as client:
        extensions = client.server_capabilities.extensions or {}
        assert extensions[APPS_EXTENSION] == {"mimeTypes": [MIME_TYPE]}
        (contents,) = (await client.read_resource(URI)).contents
    assert isinstance(contents, TextResourceContents)
    assert (contents.uri, contents.mime_type) == (URI, "text/html;profile=mcp-app")
    assert contents.meta == {"ui": {"prefersBorder": True}}
    assert contents.text == page()


def test_map_app_page_is_small_and_loads_no_external_resources() -> None:
    text = page()
    assert len(text.encode()) < MAX_BYTES
    assert text.startswith("<!doctype html>\n<html lang=")
    assert re.findall(r"https?:|//|\bsrc=|\bhref=|@import|url\(|\bfetch\b|\beval\b", text) == []


def test_map_app_page_contains_shared_map_style_sheet() -> None:
    assert style_sheet() in page().replace("\n", "")
