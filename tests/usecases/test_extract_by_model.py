"""extract_data with a model endpoint that works."""

import json
from collections.abc import AsyncIterator

import orjson
import pytest

from endpoint_server import (
    an_endpoint,
    never,
)
from servers import Place
from tool_calls import a_late_result
from usecases.models_asked import (
    KEY,
    NILE,
    RIVER,
    TEXT,
    TWICE,
    USED,
    USED_ONCE,
    asking,
    completion,
    each_way,
    extracted,
    noted,
)
from waybook.app.queries.usage import count_usage
from waybook.app.request.request_context import RequestContext
from waybook.core.usage import Totals
from waybook.research.extraction import fence_text, prompt, unused_delimiter
from worlds import Agent, Body, World, a_world


@pytest.fixture
async def world(module_place: Place) -> AsyncIterator[World]:
    async with a_world(module_place) as made:
        yield made


async def test_extract_data_adds_model_usage_to_org_totals(world: World) -> None:
    await extracted(world, "openai", json.dumps(NILE))
    assert await noted(world.agent) == USED_ONCE
    await extracted(world, "openai", "[]", json.dumps(NILE))
    assert await noted(world.agent) == Totals(input_tokens=36, output_tokens=9, results=2)
    neighbours = RequestContext(services=world.dispatcher.services, caller=world.neighbour.caller)
    assert (await count_usage(neighbours)).work == ()


@each_way
async def test_extract_data_with_model_returns_extracted_data(world: World, way: str) -> None:
    reply, other = await extracted(world, way, json.dumps(NILE))
    assert (reply["status"], reply["data"], reply["usage"]) == ("extracted", NILE, USED)
    assert len(other.asked) == 1


async def test_extract_data_openai_sends_chat_completion_request(world: World) -> None:
    _, other = await extracted(world, "openai", json.dumps(NILE))
    (request,) = other.asked
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["model"] == "m"
    assert request.body["response_format"]["json_schema"]["schema"] == RIVER
    check_told(request.body["messages"][0]["content"], request.body["messages"][1]["content"])


async def test_extract_data_anthropic_sends_messages_request(world: World) -> None:
    _, other = await extracted(world, "anthropic", json.dumps(NILE))
    (request,) = other.asked
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"]
    assert request.body["tools"][0]["input_schema"]["properties"] == {"data": RIVER}
    check_told(request.body["system"], request.body["messages"][0]["content"])


def check_told(instructions: str, text: str) -> None:
    """Check that the instructions are ours alone, and name the mark of the separate text."""
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
async def test_extract_data_parses_json_embedded_in_text(world: World, way: str, text: str) -> None:
    reply, other = await extracted(world, way, text)
    assert (reply["data"], len(other.asked)) == (NILE, 1)


@each_way
async def test_extract_data_invalid_answer_is_retried_once_with_errors(
    world: World, way: str
) -> None:
    reply, other = await extracted(world, way, '{"river": 3}', json.dumps(NILE))
    assert (reply["status"], reply["data"], reply["usage"]) == ("extracted", NILE, TWICE)
    first, second = (json.dumps(request.body) for request in other.asked)
    assert "$.river" in second
    assert "is not of type" in second
    assert "is not of type" not in first


@each_way
async def test_extract_data_second_invalid_answer_returns_errors_and_prompt(
    world: World, way: str
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
    assert len(other.asked) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I cannot.", "holds no JSON"),
        ("", "holds no JSON"),
        ('{"river": "\\u0000"}', "NUL"),
        ('{"river": "\\ud800"}', "surrogate"),
        ("[1e999]", "not finite"),
        (f"[{10**30}]", "64 bits"),
        ("[" * 100 + "]" * 100, "levels deep"),
        ("[" * 100_000, "holds no JSON"),
        (json.dumps([0] * 50_000), "too large to be checked"),
    ],
    ids=lambda text: text[:20],
)
async def test_extract_data_unusable_model_answer_returns_error(
    world: World, text: str, said: str
) -> None:
    reply, _ = await extracted(world, "openai", text)
    assert reply["status"] == "invalid"
    assert said in reply["errors"][0]["message"]
    assert len(orjson.dumps(reply)) < 48_000


async def test_extract_data_truncated_model_answer_reports_truncation(world: World) -> None:
    cut = completion('{"river": ', finish_reason="length")
    async with an_endpoint(cut) as other, asking(world, other.url) as agent:
        reply = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert reply["errors"][0]["message"] == "the answer was cut off before its end"


async def test_extract_data_oversized_model_result_requires_detail(world: World) -> None:
    long = {"river": "x" * 60_000}
    async with an_endpoint(completion(json.dumps(long))) as other, asking(world, other.url) as ann:
        args = {"text": TEXT, "schema": RIVER}
        assert (await ann.refused("extract_data", **args))["code"] == "TOO_LARGE"
        assert (await ann.call("extract_data", **args, detail=True))["data"] == long


async def test_extract_data_sends_stored_text_with_author(world: World) -> None:
    artifact_id = await a_late_result(world.agent, TEXT)
    nile = completion(json.dumps(NILE))
    async with an_endpoint(nile) as other, asking(world, other.url) as agent:
        await agent.call("extract_data", artifactId=artifact_id, schema=RIVER)
        foreign = Agent(agent.dispatcher, world.neighbour.caller)
        error = await foreign.refused("extract_data", artifactId=artifact_id, schema=RIVER)
    assert error["code"] == "NOT_FOUND"
    (request,) = other.asked
    sent = request.body["messages"][1]["content"]
    assert TEXT in sent
    assert '"storedBy": "ann"' in sent


@pytest.mark.parametrize("more", [{"promptOnly": True}, {"candidate": NILE}])
async def test_extract_data_prompt_only_or_candidate_sends_no_model_request(
    world: World, more: Body
) -> None:
    async with an_endpoint(never) as other, asking(world, other.url) as agent:
        reply = await agent.call("extract_data", text=TEXT, schema=RIVER, **more)
    assert reply["status"] in {"do_it_yourself", "extracted"}
    assert other.asked == []


async def test_extract_data_refused_schema_sends_no_model_request(world: World) -> None:
    async with an_endpoint(never) as other, asking(world, other.url) as agent:
        await agent.refused("extract_data", text=TEXT, schema={"$ref": "http://127.0.0.1:1"})
    assert other.asked == []
