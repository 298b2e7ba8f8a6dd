"""MCP prompts with which users start work."""

from typing import Literal

import pytest
from mcp import Client, MCPError
from mcp_types import TextContent

from transport.fake_dispatcher import TOOLS, RecordingDispatcher, make_gateway, make_refusal
from waybook.transport.mcp.server import build_server

Era = Literal["legacy", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


def make_client(
    dispatcher: RecordingDispatcher, era: Era = "2026-07-28", profile: str = "research"
) -> Client:
    return Client(build_server(TOOLS, make_gateway(dispatcher), profile=profile), mode=era)


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
async def test_runs_profile_has_only_the_work_on_run_prompt(era: Era) -> None:
    async with make_client(RecordingDispatcher(), era, "runs") as client:
        listed = await client.list_prompts()
        text = await text_of(client, "work_on_run", {"runId": "run-1"})
    assert [prompt.name for prompt in listed.prompts] == ["work_on_run"]
    assert "the Waybook run run-1." in text
    assert "{" not in text
