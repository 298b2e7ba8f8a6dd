"""The production list of tools, as sent to MCP clients."""

import re

import pytest
from jsonschema import Draft202012Validator
from mcp import Client

from tools.generate.files import TOOL_LIST
from tools.generate.tool_list import ALWAYS_LOADED, list_tools, render
from transport.apps_client import Apps
from transport.fake_dispatcher import RecordingDispatcher, make_gateway
from waybook.app.registry import TOOLS
from waybook.errors import Misconfigured
from waybook.transport.mcp.prompts import instructions_for
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import PROFILES, published_tools, tools_in_profile


async def listed(profile: str) -> dict[str, dict[str, object]]:
    """Return the tools of a profile, as listed to a client that shows MCP apps."""
    server = build_server(published_tools(), make_gateway(RecordingDispatcher()), profile=profile)
    async with Client(server, extensions=[Apps()]) as client:
        result = await client.list_tools()
    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in result.tools]
    return {str(tool["name"]): tool for tool in tools}


def test_tool_list_file_equals_the_rendered_tool_table() -> None:
    assert TOOL_LIST.read_text("utf-8") == render(TOOLS), "run `make generate`"
    assert published_tools() == list_tools(TOOLS)


async def test_profile_all_contains_every_tool() -> None:
    assert list(await listed("all")) == list(TOOLS)
    named = {name for profile in PROFILES[:-1] for name in await listed(profile)}
    assert set(TOOLS) - named == {"add_dag"}, "only what operators do is in `all` alone"


async def test_every_tool_has_title_description_and_valid_schemas() -> None:
    for name, tool in (await listed("all")).items():
        assert re.fullmatch(r"[a-z0-9_]{1,40}", name)
        assert tool["title"], name
        assert len(str(tool["description"])) <= 4096, name
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            assert isinstance(schema, dict)
            assert schema["type"] == "object", name
            Draft202012Validator.check_schema(schema)


def test_error_for_an_unknown_profile_lists_the_known_profiles() -> None:
    with pytest.raises(Misconfigured) as refusal:
        tools_in_profile(published_tools(), "everything")
    assert refusal.value.details == {"profiles": ["auto", "research", "runs", "all"]}


#: Names in the instructions for agents that are statuses of replies, not names of tools.
STATUSES = {
    "plan_complete",
    "awaiting_review",
    "run_complete",
    "awaiting_feedback",
    "stage_failed",
    "nothing_ready",
}


@pytest.mark.parametrize("profile", PROFILES)
async def test_server_instructions_name_only_tools_of_the_profile(profile: str) -> None:
    tools = set(await listed(profile))
    instructions = instructions_for(tools, later_runs=profile == "auto")
    assert set(re.findall(r"\b[a-z]+_[a-z_]+\b", instructions)) - tools <= STATUSES
    assert len(instructions) <= 2_000


async def test_instructions_without_add_dag_say_how_to_add_a_workflow() -> None:
    gateway, command = make_gateway(RecordingDispatcher()), "waybook dag add"
    servers = {p: build_server(published_tools(), gateway, profile=p) for p in PROFILES}
    naming = {profile for profile, server in servers.items() if command in str(server.instructions)}
    assert naming == {"auto", "runs"}


async def test_tool_list_marks_claim_and_submit_tools_as_always_loaded() -> None:
    plans, runs = set(await listed("research")), set(await listed("runs"))
    assert plans & ALWAYS_LOADED == {"get_next_step", "submit_step_result"}
    assert runs & ALWAYS_LOADED == {"get_next_job", "submit_job_result"}
    assert plans | runs >= ALWAYS_LOADED
