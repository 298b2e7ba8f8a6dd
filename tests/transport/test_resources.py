"""MCP resources for plans and runs, completion of ids, and prompts."""

import json
from typing import Literal

import pytest
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference, TextContent, TextResourceContents

from transport.fake_dispatcher import (
    ANSWERS,
    CALLER,
    PLANS,
    RecordingDispatcher,
    make_refusal,
    make_server,
)
from transport.test_read_api import make_document, make_output
from waybook.app.request.caller import Answer
from waybook.dag.definitions.definition import definition_schema
from waybook.errors import NotFound, Unavailable, WaybookError

Era = Literal["legacy", "2026-07-28"]
OF_PLANS = (
    "waybook://plans/{id}",
    "waybook://plans/{id}/map",
    "waybook://outputs/{id}",
    "waybook://artifacts/{id}",
    "waybook://sources/{id}",
)
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


def make_client(
    dispatcher: RecordingDispatcher, era: Era = "2026-07-28", profile: str = "research"
) -> Client:
    return Client(make_server(dispatcher, profile=profile), mode=era)


@BOTH_ERAS
async def test_list_of_resources_shows_status_and_progress_of_active_plans(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era) as client:
        listed = await client.list_resources()
    assert [
        (resource.uri, resource.title, resource.description) for resource in listed.resources
    ] == [
        ("waybook://plans/plan-1", "Plan 1", "Running, 40 % done"),
        ("waybook://plans/plan-2", "Plan 2", "Running, 40 % done"),
    ]


async def test_next_page_of_resources_continues_the_list_of_plans() -> None:
    page = Answer({"plans": PLANS, "total": 9, "nextCursor": "later"})
    dispatcher = RecordingDispatcher({"list_active_plans": page})
    async with make_client(dispatcher) as client:
        first = await client.list_resources()
        await client.list_resources(cursor=first.next_cursor)
    assert dispatcher.calls == [
        (CALLER, "list_active_plans", {}),
        (CALLER, "list_active_plans", {"cursor": "later"}),
    ]


@BOTH_ERAS
@pytest.mark.parametrize(
    "uri",
    [
        "waybook://plans/",
        "waybook://plans/a/b",
        "waybook://plans//map",
        "waybook://plans/plan-1/map/",
        "waybook://runs/run-1",
        "waybook://plans/plan-1\n",
        "waybook://elsewhere/plan-1",
        "file:///etc/passwd",
        "x",
    ],
)
async def test_reading_a_resource_with_an_invalid_uri_raises_invalid_params(
    era: Era, uri: str
) -> None:
    dispatcher = RecordingDispatcher()
    async with make_client(dispatcher, era) as client:
        with pytest.raises(MCPError) as refusal:
            await client.read_resource(uri)
    assert (refusal.value.code, refusal.value.message) == (-32602, "Resource not found")
    assert refusal.value.data == {"uri": uri}
    assert dispatcher.calls == []


@pytest.mark.parametrize(
    ("uri", "fault", "number"),
    [
        (uri, fault, number)
        for uri in ("waybook://plans/x", "waybook://documents/x", "waybook://outputs/x")
        for fault, number in ((NotFound, -32602), (Unavailable, -32603))
    ],
)
async def test_read_of_missing_or_unavailable_resource_returns_mcp_error_code(
    uri: str, fault: type[WaybookError], number: int
) -> None:
    refused = {"get_research_context": make_refusal(fault.code)}
    dispatcher = RecordingDispatcher(refused, readable=fault, deliverable=fault)
    async with make_client(dispatcher, profile="runs") as client:
        with pytest.raises(MCPError) as refusal:
            await client.read_resource(uri)
    assert refusal.value.code == number
    assert refusal.value.message == "Resource not found" or fault is Unavailable


@pytest.mark.parametrize("tool", ["list_active_plans", "list_dags"])
@pytest.mark.parametrize(("code", "number"), [("INVALID_INPUT", -32602), ("BUSY", -32603)])
async def test_resource_list_returns_error_code_if_listing_fails(
    tool: str, code: str, number: int
) -> None:
    dispatcher = RecordingDispatcher({**ANSWERS, tool: make_refusal(code)})
    async with make_client(dispatcher, profile="runs") as client:
        with pytest.raises(MCPError) as refusal:
            await client.list_resources()
    assert refusal.value.code == number
    assert refusal.value.data["error"]["code"] == code


@BOTH_ERAS
@pytest.mark.parametrize(
    ("typed", "numbers"), [("", "12"), ("{}-2", "2"), ("{} 1", "1"), ("x", "")]
)
async def test_completion_suggests_plan_or_run_id_by_prefix_or_name(
    era: Era, typed: str, numbers: str
) -> None:
    async with make_client(RecordingDispatcher(), era, "all") as client:
        for kind, prompt, uris in (
            ("plan", "resume_plan", ["plans/{id}"]),
            ("run", "work_on_run", ["runs/{id}/progress", "runs/{id}/map"]),
        ):
            start = typed.format(kind if "-" in typed else kind.upper())
            found = [
                await client.complete(
                    PromptReference(name=prompt), {"name": f"{kind}Id", "value": start}
                ),
                *[
                    await client.complete(
                        ResourceTemplateReference(uri=f"waybook://{uri}"),
                        {"name": "id", "value": start},
                    )
                    for uri in uris
                ],
            ]
            expected = [f"{kind}-{number}" for number in numbers]
            assert [reply.completion.values for reply in found] == [expected] * len(found)


async def test_unsupported_completion_argument_returns_no_values() -> None:
    dispatcher = RecordingDispatcher(ANSWERS)
    async with make_client(dispatcher) as client:
        for ref in (
            PromptReference(name="plan_research"),
            PromptReference(name="resume_plan"),
            ResourceTemplateReference(uri="waybook://elsewhere/{id}"),
        ):
            completed = await client.complete(ref, {"name": "question", "value": "w"})
            assert completed.completion.values == []
    assert dispatcher.calls == []


async def test_mcp_completion_with_more_than_100_values_is_truncated() -> None:
    plans = [{**PLANS[0], "planId": f"plan-{number}"} for number in range(101)]
    page = Answer({"plans": plans, "total": 101, "nextCursor": None})
    async with make_client(RecordingDispatcher({"list_active_plans": page})) as client:
        ref = PromptReference(name="resume_plan")
        completed = await client.complete(ref, {"name": "planId", "value": ""})
    assert len(completed.completion.values) == 100
    assert completed.completion.has_more is True


# Tests of the profiles, which select the tools and resources that the server offers.


@BOTH_ERAS
async def test_resources_of_profile_all_list_open_runs_before_plans(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era, "all") as client:
        listed = await client.list_resources()
    assert [(resource.uri, resource.description) for resource in listed.resources] == [
        ("waybook://runs/run-1/progress", "dialectic, antithesis running, 5 steps done"),
        ("waybook://runs/run-2/progress", "dialectic, thesis awaits feedback, 5 steps done"),
        ("waybook://plans/plan-1", "Running, 40 % done"),
        ("waybook://plans/plan-2", "Running, 40 % done"),
        ("waybook://schema/workflow", "JSON schema of a workflow definition."),
    ]


@BOTH_ERAS
async def test_schema_of_workflows_is_a_resource(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era, "runs") as client:
        (contents,) = (await client.read_resource("waybook://schema/workflow")).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.mime_type == "application/schema+json"
    assert json.loads(contents.text) == definition_schema()


async def test_profile_without_runs_has_no_workflow_schema_resource() -> None:
    async with make_client(RecordingDispatcher()) as client:
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("waybook://schema/workflow")


async def test_only_first_page_of_resources_contains_runs() -> None:
    dispatcher = RecordingDispatcher()
    async with make_client(dispatcher, profile="all") as client:
        listed = await client.list_resources(cursor="later")
    assert all(resource.uri.startswith("waybook://plans/") for resource in listed.resources)
    assert [tool for _, tool, _ in dispatcher.calls] == ["list_active_plans"]


@pytest.mark.parametrize(
    ("profile", "kinds"),
    [
        ("research", [*OF_PLANS]),
        (
            "runs",
            [
                *OF_PLANS,
                "waybook://runs/{id}/progress",
                "waybook://runs/{id}/map",
                "waybook://documents/{id}",
            ],
        ),
    ],
)
async def test_list_of_resource_templates_depends_on_the_profile(
    profile: str, kinds: list[str]
) -> None:
    async with make_client(RecordingDispatcher(), profile=profile) as client:
        listed = await client.list_resource_templates()
    assert [template.uri_template for template in listed.resource_templates] == kinds


@BOTH_ERAS
@pytest.mark.parametrize(
    ("uri", "tool", "arguments"),
    [
        ("waybook://plans/p-1", "get_research_context", {"planId": "p-1"}),
        ("waybook://plans/p-1/map", "get_dag_map", {"planId": "p-1"}),
        ("waybook://runs/r-1/progress", "get_run_progress", {"runId": "r-1"}),
        ("waybook://runs/r-1/map", "get_dag_map", {"runId": "r-1"}),
        ("waybook://artifacts/a-1", "get_artifact", {"artifactId": "a-1", "detail": True}),
        ("waybook://sources/s-1", "get_artifact", {"artifactId": "s-1"}),
    ],
)
async def test_reading_a_resource_calls_the_matching_tool(
    era: Era, uri: str, tool: str, arguments: dict[str, object]
) -> None:
    dispatcher = RecordingDispatcher({})
    async with make_client(dispatcher, era, "runs") as client:
        read = await client.read_resource(uri)
    assert dispatcher.calls == [(CALLER, tool, arguments)]
    [contents] = read.contents
    assert isinstance(contents, TextResourceContents)
    assert contents.mime_type == "application/json"
    assert json.loads(contents.text) == {"tool": tool, "arguments": arguments}


@BOTH_ERAS
async def test_resource_of_a_document_returns_markdown(era: Era) -> None:
    dispatcher = RecordingDispatcher(readable=make_document(markdown="# Found"))
    async with make_client(dispatcher, era, profile="runs") as client:
        read = await client.read_resource("waybook://documents/d-1")
    assert dispatcher.calls == [(CALLER, "document", {"resourceId": "d-1"})]
    uri = "waybook://documents/d-1"
    (content,) = read.contents
    assert isinstance(content, TextResourceContents)
    assert (content.uri, content.mime_type, content.text) == (uri, "text/markdown", "# Found")
    assert content.meta == {
        "modelId": "opus",
        "createdAt": "2030-01-01T00:00:00+00:00",
        "version": 1,
        "madeFrom": [],
    }


async def test_document_resource_metadata_contains_number_of_hidden_characters() -> None:
    dispatcher = RecordingDispatcher(readable=make_document(markdown="a\u202eb"))
    async with make_client(dispatcher, profile="runs") as client:
        (content,) = (await client.read_resource("waybook://documents/d-1")).contents
    assert content.meta is not None
    assert content.meta["oddCharacters"] == {"bidi": 1}


# Tests of outputs as resources.


@BOTH_ERAS
async def test_resource_of_an_output_has_media_type_content_and_author(era: Era) -> None:
    dispatcher = RecordingDispatcher(
        deliverable=make_output(media_type="text/html", content="<p>x")
    )
    async with make_client(dispatcher, era) as client:
        read = await client.read_resource("waybook://outputs/o-1")
    (content,) = read.contents
    assert isinstance(content, TextResourceContents)
    assert (content.uri, content.mime_type) == ("waybook://outputs/o-1", "text/html")
    assert content.text == "<p>x"
    assert content.meta == {"createdBy": "ann", "createdAt": "2030-01-01T12:00:00+00:00"}
    assert dispatcher.calls == [(CALLER, "output", {"outputId": "o-1"})]


# Tests of prompts.


async def text_of(client: Client, name: str, arguments: dict[str, str] | None = None) -> str:
    prompt = await client.get_prompt(name, arguments)
    [message] = prompt.messages
    assert isinstance(message.content, TextContent)
    return message.content.text


@BOTH_ERAS
async def test_prompt_list_contains_builtin_prompts_and_skills(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era) as client:
        listed = await client.list_prompts()
    assert [(prompt.name, prompt.description) for prompt in listed.prompts] == [
        ("resume_plan", "Continue a plan in this conversation."),
        (
            "plan_research",
            "Turn a question into a plan that survives this conversation, and begin.",
        ),
        ("market-scan", "Scan a market."),
    ]
    assert [
        [(gap.name, gap.required) for gap in prompt.arguments or []] for prompt in listed.prompts
    ] == [[("planId", True)], [("question", True)], [("question", False)]]


@BOTH_ERAS
async def test_prompt_contains_the_argument_without_expanding_placeholders(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era) as client:
        text = await text_of(client, "resume_plan", {"planId": "plan-1"})
        question = await text_of(client, "plan_research", {"question": "Why {planId}?"})
    assert "the Waybook plan plan-1." in text
    assert "{" not in text
    assert "Why {planId}?" in question


@BOTH_ERAS
async def test_skill_prompt_without_question_asks_user_for_question(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era) as client:
        text = await text_of(client, "market-scan", {"question": "Who sells {tea}?"})
        left_away = [
            await text_of(client, "market-scan", arguments)
            for arguments in (None, {}, {"question": "  "})
        ]
    assert "on this question:\n\nWho sells {tea}?\n" in text
    assert "Ask me" not in text
    assert len(set(left_away)) == 1
    assert "Ask me what the question is" in left_away[0]
    assert "{question}" not in left_away[0]


@BOTH_ERAS
@pytest.mark.parametrize("arguments", [None, {}, {"planId": " "}, {"question": "Why?"}])
async def test_error_for_a_missing_prompt_argument_names_the_argument(
    era: Era, arguments: dict[str, str] | None
) -> None:
    async with make_client(RecordingDispatcher(), era) as client:
        with pytest.raises(MCPError) as refusal:
            await client.get_prompt("resume_plan", arguments)
    assert refusal.value.code == -32602
    assert refusal.value.message == "The prompt resume_plan needs the argument planId."


@BOTH_ERAS
async def test_request_for_an_unknown_prompt_raises_a_protocol_error(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era) as client:
        with pytest.raises(MCPError) as refusal:
            await client.get_prompt("no_such_prompt")
    assert (refusal.value.code, refusal.value.message) == (-32602, "Unknown prompt: no_such_prompt")


async def test_prompt_list_omits_skills_if_listing_skills_fails() -> None:
    dispatcher = RecordingDispatcher({"list_skills": make_refusal("UNAVAILABLE")})
    async with make_client(dispatcher) as client:
        listed = await client.list_prompts()
    assert [prompt.name for prompt in listed.prompts] == ["resume_plan", "plan_research"]


@BOTH_ERAS
async def test_profile_runs_has_only_the_prompt_to_work_on_a_run(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era, "runs") as client:
        listed = await client.list_prompts()
        text = await text_of(client, "work_on_run", {"runId": "run-1"})
    assert [prompt.name for prompt in listed.prompts] == ["work_on_run"]
    assert "the Waybook run run-1." in text
    assert "{" not in text
