"""Replies of `extract_data` with a working language model."""

import json
from collections.abc import AsyncIterator

import orjson
import pytest

from app.fake_model import (
    KEY,
    NILE,
    RIVER,
    TEXT,
    TWICE,
    USED,
    USED_ONCE,
    completion,
    each_way,
    extracted,
    model_requests,
    recorded_usage,
)
from fake_endpoint import fake_endpoint, never_respond
from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import ServerDatabase
from tool_calls import submit_late_result
from waybook.app.queries.usage import count_usage
from waybook.app.request.request_context import RequestContext
from waybook.core.usage import Totals
from waybook.research.extraction import fence_text, prompt, unused_delimiter


@pytest.fixture
async def world(module_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(module_place) as made:
        yield made


async def test_extract_data_adds_model_usage_to_org_totals(world: OrgEnv) -> None:
    await extracted(world, "openai", json.dumps(NILE))
    assert await recorded_usage(world.agent) == USED_ONCE
    await extracted(world, "openai", "[]", json.dumps(NILE))
    assert await recorded_usage(world.agent) == Totals(input_tokens=36, output_tokens=9, results=2)
    other_org = RequestContext(services=world.dispatcher.services, caller=world.other_org.caller)
    assert not (await count_usage(other_org)).work


@each_way
async def test_extract_data_with_model_returns_extracted_data(world: OrgEnv, way: str) -> None:
    reply, other = await extracted(world, way, json.dumps(NILE))
    assert (reply["status"], reply["data"], reply["usage"]) == ("extracted", NILE, USED)
    assert len(other.requests) == 1


async def test_extract_data_sends_chat_completion_request_to_openai_api(world: OrgEnv) -> None:
    _, other = await extracted(world, "openai", json.dumps(NILE))
    (request,) = other.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "m"
    assert request.body["response_format"]["json_schema"]["schema"] == RIVER
    check_instructions(
        request.body["messages"][0]["content"], request.body["messages"][1]["content"]
    )


async def test_extract_data_sends_messages_request_to_anthropic_api(world: OrgEnv) -> None:
    _, other = await extracted(world, "anthropic", json.dumps(NILE))
    (request,) = other.requests
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"]
    assert request.body["tools"][0]["input_schema"]["properties"] == {"data": RIVER}
    check_instructions(request.body["system"], request.body["messages"][0]["content"])


def check_instructions(instructions: str, text: str) -> None:
    """Check that the instructions have the delimiter and the schema, but not the user's text."""
    assert text == fence_text(TEXT)
    assert unused_delimiter(TEXT) in instructions
    assert TEXT not in instructions
    assert json.dumps(RIVER) in instructions


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"river": "Nile"}\n```',
        'Here you are:\n```\n{"river": "Nile"}\n```\nAnything else?',
        '<think>{"river": "Amazon"}?</think>{"river": "Nile"}',
        'It is {"river": "Nile"}.',
    ],
)
@pytest.mark.parametrize("way", ["openai", "anthropic, in words"])
async def test_extract_data_parses_json_embedded_in_text_of_model_answer(
    world: OrgEnv, way: str, text: str
) -> None:
    reply, other = await extracted(world, way, text)
    assert (reply["data"], len(other.requests)) == (NILE, 1)


@each_way
async def test_extract_data_sends_errors_to_model_after_first_invalid_answer(
    world: OrgEnv, way: str
) -> None:
    reply, other = await extracted(world, way, '{"river": 3}', json.dumps(NILE))
    assert (reply["status"], reply["data"], reply["usage"]) == ("extracted", NILE, TWICE)
    first, second = (json.dumps(request.body) for request in other.requests)
    assert "$.river" in second
    assert "is not of type" in second
    assert "is not of type" not in first


@each_way
async def test_extract_data_returns_errors_and_prompt_after_two_invalid_answers(
    world: OrgEnv, way: str
) -> None:
    reply, other = await extracted(world, way, "[]", '{"river": 3}')
    assert reply == {
        "status": "invalid",
        "errors": [{"path": "$.river", "message": "3 is not of type 'string'"}],
        "prompt": prompt(TEXT),
        "schema": RIVER,
        "left": 0,
        "usage": TWICE,
        "next": reply["next"],
    }
    assert "candidate" in reply["next"]["why"]
    assert len(other.requests) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I cannot.", "contains no JSON"),
        ("", "contains no JSON"),
        ('{"river": "\\u0000"}', "NUL"),
        ('{"river": "\\ud800"}', "surrogate"),
        ("[1e999]", "not finite"),
        (f"[{10**30}]", "64 bits"),
        ("[" * 100 + "]" * 100, "levels deep"),
        ("[" * 100_000, "contains no JSON"),
        (json.dumps([0] * 50_000), "too large to be checked"),
    ],
    ids=lambda text: text[:20],
)
async def test_extract_data_returns_error_for_unusable_model_answer(
    world: OrgEnv, text: str, said: str
) -> None:
    reply, _ = await extracted(world, "openai", text)
    assert reply["status"] == "invalid"
    assert said in reply["errors"][0]["message"]
    assert len(orjson.dumps(reply)) < 48_000


async def test_extract_data_reports_truncation_of_model_answer(world: OrgEnv) -> None:
    cut = completion('{"river": ', finish_reason="length")
    async with fake_endpoint(cut) as other, model_requests(world, other.url) as agent:
        reply = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert reply["errors"][0]["message"] == "the answer was cut off before its end"


async def test_extract_data_sends_stored_text_with_author_to_model(world: OrgEnv) -> None:
    artifact_id = await submit_late_result(world.agent, TEXT)
    nile = completion(json.dumps(NILE))
    async with fake_endpoint(nile) as other, model_requests(world, other.url) as agent:
        await agent.call("extract_data", artifactId=artifact_id, schema=RIVER)
        foreign = AgentClient(agent.dispatcher, world.other_org.caller)
        error = await foreign.refused("extract_data", artifactId=artifact_id, schema=RIVER)
    assert error["code"] == "NOT_FOUND"
    (request,) = other.requests
    sent = request.body["messages"][1]["content"]
    assert TEXT in sent
    assert '"storedBy": "ann"' in sent


@pytest.mark.parametrize("more", [{"promptOnly": True}, {"candidate": NILE}])
async def test_extract_data_with_prompt_only_or_candidate_calls_no_model(
    world: OrgEnv, more: Body
) -> None:
    async with fake_endpoint(never_respond) as other, model_requests(world, other.url) as agent:
        reply = await agent.call("extract_data", text=TEXT, schema=RIVER, **more)
    assert reply["status"] in {"do_it_yourself", "extracted"}
    assert other.requests == []
