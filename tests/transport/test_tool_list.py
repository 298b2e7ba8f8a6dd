"""The published list of tools: its profiles, schemas and descriptions, and the map for chats."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx2
import mcp_types as wire
import orjson
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.extension import ClientExtension
from mcp_types import TextResourceContents

from tokens import count_tokens
from tools.generate.files import TOOL_LIST
from tools.generate.tool_list import ALWAYS_LOADED, list_tools, render
from transport.apps_client import Apps
from transport.fake_dispatcher import RecordingDispatcher, make_app, make_gateway, serve
from transport.messages import LEGACY, make_request
from waybook.app.registry import TOOLS
from waybook.dag.diagram.svg import style_sheet
from waybook.errors import Misconfigured
from waybook.transport.jsonrpc import APPS_EXTENSION
from waybook.transport.mcp.prompts import instructions_for
from waybook.transport.mcp.resources import APP_TOOLS, MIME_TYPE, URI, page
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import PROFILES, published_tools, tools_in_profile

Schema = dict[str, Any]

#: JSON Schema keywords in tools that all model APIs accept: those of Anthropic, OpenAI (even in
#: strict mode) and Gemini.
ACCEPTED: Final = {"type", "description", "properties", "required", "items", "enum"}
#: For each JSON type, the keywords for limits that all model APIs accept.
LIMITS: Final = {
    "string": {"minLength", "maxLength"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "array": {"minItems", "maxItems"},
    "object": {"minProperties", "maxProperties"},
}
TYPES: Final = ("string", "integer", "number", "boolean", "array", "object")
#: For each profile (a set of tools that a server can offer), the maximum number of tokens of its
#: tools, with their names, descriptions and input schemas.
MAX_TOKENS: Final = {"auto": 7_000, "research": 4_000, "runs": 3_000, "work": 7_000, "all": 7_000}
#: Maximum length of a description; some clients cut longer descriptions.
MAX_DESCRIPTION_LENGTH: Final = 1_024

LISTED: Final = {name: tool.listed for name, tool in published_tools().items()}


def schemas_within(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield a schema and the schemas nested in it, with their paths."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas_within(inner, f"{path}.{name}")
    if "items" in schema:
        yield from schemas_within(schema["items"], f"{path}[]")


EVERY_SCHEMA: Final = [
    found
    for name, tool in LISTED.items()
    for found in schemas_within(dict(tool.input_schema), name)
]


def problems(schema: Schema) -> Iterator[str]:
    """Yield the reasons for which clients or model APIs would refuse a schema."""
    if unknown := set(schema) - ACCEPTED - LIMITS.get(str(schema.get("type")), set()):
        yield f"keywords {unknown}"
    if schema.get("type") not in TYPES:
        yield "no single type"
    if schema.get("type") == "array" and "items" not in schema:
        yield "no items"
    if undefined := set(schema.get("required", [])) - set(schema.get("properties", {})):
        yield f"required but not defined: {undefined}"
    if "enum" in schema and schema.get("type") != "string":
        yield "enum of something other than texts"
    for name, inner in schema.get("properties", {}).items():
        if not inner.get("description"):
            yield f"{name} has no description"


def test_tool_schemas_use_only_keywords_that_all_model_apis_accept() -> None:
    refused = {path: list(problems(schema)) for path, schema in EVERY_SCHEMA}
    assert {path: reasons for path, reasons in refused.items() if reasons} == {}


def test_every_object_within_tool_arguments_has_properties() -> None:
    # Gemini refuses an object without properties, and with OpenAI's strict mode such an object is
    # always empty.
    inner = [(path, schema) for path, schema in EVERY_SCHEMA if path not in LISTED]
    assert [path for path, s in inner if s["type"] == "object" and not s.get("properties")] == []


@pytest.mark.parametrize(
    "bad",
    [
        {"description": "any"},
        {"type": ["string", "null"]},
        {"type": "array"},
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        {"type": "object", "properties": {}, "required": ["stepId"]},
        {"type": "object", "properties": {"stepId": {"type": "string"}}},
        {"type": "integer", "enum": [1, 2]},
        {"type": "string", "minimum": 1},
        {"type": "string", "pattern": "^a"},
    ],
)
def test_tool_schema_check_reports_a_schema_that_some_client_refuses(bad: Schema) -> None:
    assert list(problems(bad)) != []


def test_tool_list_has_all_four_behavior_hints_of_every_tool() -> None:
    for name, listed_tool in LISTED.items():
        hints, tool = listed_tool.annotations, TOOLS[name]
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (tool.reads_only, tool.destructive)
        assert hints.idempotent_hint is (tool.reads_only or tool.idempotent), name
        # Only `extract_data` sends data to another system.
        assert hints.open_world_hint is (name == "extract_data")


def tokens_of(tools: list[wire.Tool]) -> tuple[int, int]:
    """Return how many tokens and bytes these tools take in the context of a model."""
    texts = [
        orjson.dumps(
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        ).decode()
        for tool in tools
        if tool.name not in APP_TOOLS
    ]
    return sum(map(count_tokens, texts)), sum(len(t.encode()) for t in texts)


@pytest.mark.parametrize("profile", MAX_TOKENS)
def test_tool_list_of_every_profile_is_within_the_token_budget(
    profile: str, record_property: Callable[[str, object], None]
) -> None:
    tokens, size = tokens_of(tools_in_profile(published_tools(), profile))
    record_property("tokens", tokens)
    print(f"{profile}: {tokens:,} tokens, {size:,} bytes")  # noqa: T201 - for the log
    assert tokens <= MAX_TOKENS[profile]


# Many agent frameworks do not show the server's instructions to the model, so descriptions must say
# in what order to call tools.


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("create_research_plan", {"get_next_step", "planId"}),
        ("get_next_step", {"submit_step_result", "stepId", "attempt", "plan_complete"}),
        ("submit_step_result", {"get_next_step", "STALE_ATTEMPT"}),
        ("request_user_review", {"reviewUrl", "submit_user_decision"}),
        ("submit_user_decision", {"get_next_step"}),
        ("list_active_plans", {"resume"}),
        ("get_research_context", {"resume", "get_next_step"}),
        ("start_run", {"get_next_job"}),
        ("get_next_job", {"submit_job_result", "jobId", "attempt", "run_complete"}),
        ("submit_job_result", {"get_next_job", "STALE_ATTEMPT"}),
        ("submit_stage_feedback", {"get_next_job"}),
    ],
)
def test_tool_description_names_the_tool_to_call_next(tool: str, words: set[str]) -> None:
    assert {word for word in words if word in (LISTED[tool].description or "")} == words


@pytest.mark.parametrize(
    ("argument", "purpose"),
    [("sessionId", "conversation"), ("idempotencyKey", "retries"), ("attempt", "from get_next_")],
)
def test_tool_argument_description_states_the_purpose_of_the_argument(
    argument: str, purpose: str
) -> None:
    described = [
        schema["description"] for path, schema in EVERY_SCHEMA if path.endswith(f".{argument}")
    ]
    assert described
    assert all(purpose in text for text in described)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("extensions", [[], [Apps()]])
async def test_map_tool_is_listed_only_to_clients_with_apps_extension(
    mode: ConnectMode, extensions: list[ClientExtension]
) -> None:
    server = build_server(published_tools(), make_gateway(RecordingDispatcher()), profile="all")
    async with Client(server, mode=mode, extensions=extensions) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert names >= set(LISTED) - APP_TOOLS
    assert (names >= APP_TOOLS) is bool(extensions)


@pytest.mark.parametrize("extensions", [{}, {APPS_EXTENSION: {"mimeTypes": [MIME_TYPE]}}])
async def test_older_http_client_without_apps_extension_gets_no_map_tool(
    extensions: dict[str, object],
) -> None:
    server = build_server(published_tools(), make_gateway(RecordingDispatcher()), profile="all")
    app = make_app(server)
    async with serve(app) as address, httpx2.AsyncClient(base_url=address, trust_env=False) as http:
        begun = await http.post(
            "/mcp",
            headers=LEGACY,
            content=make_request(
                "initialize",
                protocolVersion="2025-11-25",
                capabilities={"extensions": extensions},
                clientInfo={"name": "host", "version": "1"},
            ),
        )
        session = {k: v for k, v in begun.headers.items() if k == "mcp-session-id"}
        listing = await http.post(
            "/mcp", headers={**LEGACY, **session}, content=make_request("tools/list")
        )
    names = {tool["name"] for tool in listing.json()["result"]["tools"]}
    assert bool(session) is bool(extensions)
    assert (names >= APP_TOOLS) is bool(extensions)


# Tests of the profiles, each of which is a set of tools.


async def listed(profile: str) -> dict[str, dict[str, object]]:
    server = build_server(published_tools(), make_gateway(RecordingDispatcher()), profile=profile)
    async with Client(server, extensions=[Apps()]) as client:
        result = await client.list_tools()
    tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in result.tools]
    return {str(tool["name"]): tool for tool in tools}


def test_generated_tool_list_file_is_up_to_date() -> None:
    assert TOOL_LIST.read_text("utf-8") == render(TOOLS), "run `make generate`"
    assert published_tools() == list_tools(TOOLS)


async def test_profile_all_contains_every_tool() -> None:
    assert list(await listed("all")) == list(TOOLS)
    named = {name for profile in PROFILES[:-1] for name in await listed(profile)}
    alone = set(TOOLS) - named
    assert alone == {"add_dag", "decide_cap"}, "only what operators do is in `all` alone"


async def test_every_tool_has_title_description_and_valid_schemas() -> None:
    for name, tool in (await listed("all")).items():
        assert re.fullmatch(r"[a-z0-9_]{1,40}", name)
        assert tool["title"], name
        assert 0 < len(str(tool["description"])) <= MAX_DESCRIPTION_LENGTH, name
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            assert isinstance(schema, dict)
            assert schema["type"] == "object", name
            Draft202012Validator.check_schema(schema)


def test_error_for_an_unknown_profile_lists_the_known_profiles() -> None:
    with pytest.raises(Misconfigured) as refusal:
        tools_in_profile(published_tools(), "everything")
    assert refusal.value.details == {"profiles": ["auto", "research", "runs", "work", "all"]}


#: Words in the instructions for agents that look like names of tools, but are statuses of replies.
STATUSES = {
    *("plan_complete", "awaiting_review", "run_complete", "awaiting_feedback"),
    *("stage_failed", "nothing_ready"),
}


@pytest.mark.parametrize("profile", PROFILES)
async def test_server_instructions_mention_only_tools_of_the_profile(profile: str) -> None:
    tools = set(await listed(profile))
    instructions = instructions_for(tools, later_runs=profile == "auto")
    assert set(re.findall(r"\b[a-z]+_[a-z_]+\b", instructions)) - tools <= STATUSES
    assert len(instructions) <= 2_000


async def test_instructions_mention_command_if_add_dag_is_not_offered() -> None:
    gateway, command = make_gateway(RecordingDispatcher()), "waybook workflow add"
    servers = {p: build_server(published_tools(), gateway, profile=p) for p in PROFILES}
    naming = {profile for profile, server in servers.items() if command in str(server.instructions)}
    assert naming == {"auto", "runs"}


async def test_tool_list_marks_claim_and_submit_tools_as_always_loaded() -> None:
    plans, runs = set(await listed("research")), set(await listed("runs"))
    assert plans & ALWAYS_LOADED == {"get_next_step", "submit_step_result"}
    assert runs & ALWAYS_LOADED == {"get_next_job", "submit_job_result"}
    assert plans | runs >= ALWAYS_LOADED


# Tests of the map that clients show in the chat (an MCP App).


MAX_BYTES = 10_000


def make_client(profile: str = "auto") -> Client:
    server = build_server(published_tools(), make_gateway(RecordingDispatcher()), profile=profile)
    return Client(server, mode="auto")


@pytest.mark.parametrize("profile", PROFILES)
async def test_only_tools_that_show_progress_link_to_the_map_app(profile: str) -> None:
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
