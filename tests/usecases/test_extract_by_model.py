"""extract_data with an endpoint of a model, which behaves as it likes."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest

from endpoint_server import (
    EndpointServer,
    Play,
    an_endpoint,
    answer,
    drop_by_drop,
    endlessly,
    half,
    hang_up,
    never,
    nobodys_url,
    nonsense,
)
from servers import Place
from tool_calls import a_late_result
from waybook.doorway import Doorway
from waybook.endpoints.asking import ModelEndpoint
from waybook.endpoints.question import Question, Told
from waybook.errors import EndpointFailed
from waybook.record.moment import Json
from waybook.record.usage import Totals, Usage
from waybook.research.extraction import fenced, mark_of, prompt
from waybook.store.calls import CallLog
from waybook.usecases.call import Call
from waybook.usecases.count_usage import count_usage
from worlds import Agent, Body, World, a_world

KEY = "sk-of-the-operator"
RIVER: Body = {
    "type": "object",
    "properties": {"river": {"type": "string"}},
    "required": ["river"],
}
NILE = {"river": "Nile"}
TEXT = "The Nile is 6,650 km long."
SECONDS = 20.0
#: Enough for a request on loopback to arrive; what is to end by time ends by this.
SHORT = 0.2
USED = {"inputTokens": 12, "outputTokens": 3, "model": "m-2030"}
TWICE = {"inputTokens": 24, "outputTokens": 6, "model": "m-2030"}


@pytest.fixture
async def world(module_place: Place) -> AsyncIterator[World]:
    async with a_world(module_place) as made:
        yield made


def completion(text: str, **choice: Json) -> Play:
    message: Json = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return answer({"model": "m-2030", "choices": [{"message": message, **choice}], "usage": usage})


def message(text: str) -> Play:
    usage = {"input_tokens": 12, "output_tokens": 3}
    blocks = [{"type": "text", "text": text}]
    return answer({"model": "m-2030", "content": blocks, "stop_reason": "end_turn", "usage": usage})


def handed_in(text: str) -> Play:
    """The same by the tool that must be used."""
    usage = {"input_tokens": 12, "output_tokens": 3}
    block = {"type": "tool_use", "id": "1", "name": "hand_in", "input": {"data": json.loads(text)}}
    told = {"model": "m-2030", "content": [block], "stop_reason": "tool_use", "usage": usage}
    return answer(told)


#: Every way to be asked, with how a text is answered there.
WAYS: dict[str, tuple[str, Callable[[str], Play]]] = {
    "openai": ("openai", completion),
    "anthropic": ("anthropic", handed_in),
    "anthropic, in words": ("anthropic", message),
}
each_way = pytest.mark.parametrize("way", WAYS)


@asynccontextmanager
async def asking(
    world: World, url: str, api: str = "openai", seconds: float = SECONDS
) -> AsyncIterator[Agent]:
    """Ann, where the server has a model."""
    model = ModelEndpoint(url=f"{url}/v1", api=api, model="m", key=KEY)
    house = replace(world.doorway.house, model=model, model_seconds=seconds)
    try:
        yield Agent(Doorway(house, CallLog(world.database)), world.agent.caller)
    finally:
        await model.close()


async def extracted(world: World, way: str, *texts: str) -> tuple[Body, EndpointServer]:
    """What is answered where the model says these, one after the other."""
    api, said = WAYS[way]
    async with an_endpoint(*map(said, texts)) as other, asking(world, other.url, api) as agent:
        return await agent.call("extract_data", text=TEXT, schema=RIVER), other


async def unavailable(
    world: World, *plays: Play, api: str = "openai", seconds: float = SECONDS
) -> tuple[Body, EndpointServer]:
    """How it is told that the endpoint did not do it."""
    async with an_endpoint(*plays) as other, asking(world, other.url, api, seconds) as agent:
        error = await agent.refused("extract_data", text=TEXT, schema=RIVER)
    assert error["code"] == "UNAVAILABLE"
    assert error["next"]["tool"] == "extract_data"
    assert error["next"]["args"] == {"promptOnly": True}
    return error, other


# It works


#: What the model said it took, as the org's sums have it.
USED_ONCE = Totals(input_tokens=12, output_tokens=3, results=1)


async def noted(agent: Agent) -> Totals:
    """What the org's work took, which here is what its extractions took."""
    found = await count_usage(Call(house=agent.doorway.house, caller=agent.caller))
    assert [(one.kind, one.name, one.took) for one in found.work] == [
        ("tool", "extract_data", found.took)
    ]
    return found.took


async def test_what_the_model_took_is_in_the_org_s_sums(world: World) -> None:
    await extracted(world, "openai", json.dumps(NILE))
    assert await noted(world.agent) == USED_ONCE
    await extracted(world, "openai", "[]", json.dumps(NILE))
    assert await noted(world.agent) == Totals(input_tokens=36, output_tokens=9, results=2)
    neighbours = Call(house=world.doorway.house, caller=world.neighbour.caller)
    assert (await count_usage(neighbours)).work == ()


@each_way
async def test_the_model_is_asked_and_its_data_are_handed_back(world: World, way: str) -> None:
    told, other = await extracted(world, way, json.dumps(NILE))
    assert (told["status"], told["data"], told["usage"]) == ("extracted", NILE, USED)
    assert len(other.asked) == 1


async def test_a_chat_completion_is_asked_for(world: World) -> None:
    _, other = await extracted(world, "openai", json.dumps(NILE))
    (asked,) = other.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == "m"
    assert asked.body["response_format"]["json_schema"]["schema"] == RIVER
    check_told(asked.body["messages"][0]["content"], asked.body["messages"][1]["content"])


async def test_a_message_is_asked_for(world: World) -> None:
    _, other = await extracted(world, "anthropic", json.dumps(NILE))
    (asked,) = other.asked
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["anthropic-version"]
    assert asked.body["tools"][0]["input_schema"]["properties"] == {"data": RIVER}
    check_told(asked.body["system"], asked.body["messages"][0]["content"])


def check_told(instructions: str, text: str) -> None:
    """The instructions are ours alone, and name the mark of the text, which stands apart."""
    assert text == fenced(TEXT)
    assert mark_of(TEXT) in instructions
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
async def test_json_is_found_among_words(world: World, way: str, text: str) -> None:
    told, other = await extracted(world, way, text)
    assert (told["data"], len(other.asked)) == (NILE, 1)


@each_way
async def test_wrong_data_are_sent_back_once_with_what_is_wrong(world: World, way: str) -> None:
    told, other = await extracted(world, way, '{"river": 3}', json.dumps(NILE))
    assert (told["status"], told["data"], told["usage"]) == ("extracted", NILE, TWICE)
    first, second = (json.dumps(asked.body) for asked in other.asked)
    assert "$.river" in second
    assert "is not of type" in second
    assert "is not of type" not in first


@each_way
async def test_data_wrong_twice_are_told_with_the_way_to_do_it_oneself(
    world: World, way: str
) -> None:
    told, other = await extracted(world, way, "[]", '{"river": 3}')
    assert told == {
        "status": "invalid",
        "errors": [{"path": "$.river", "message": "3 is not of type 'string'"}],
        "prompt": prompt(TEXT),
        "schema": RIVER,
        "left": 0,
        "usage": TWICE,
        "next": told["next"],
    }
    assert "candidate" in told["next"]["why"]
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
async def test_what_can_be_no_data_is_told_as_what_is_wrong(
    world: World, text: str, said: str
) -> None:
    told, _ = await extracted(world, "openai", text)
    assert told["status"] == "invalid"
    assert said in told["errors"][0]["message"]
    assert len(orjson.dumps(told)) < 48_000


async def test_an_answer_that_was_cut_off_is_told_so(world: World) -> None:
    cut = completion('{"river": ', finish_reason="length")
    async with an_endpoint(cut) as other, asking(world, other.url) as agent:
        told = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert told["errors"][0]["message"] == "the answer was cut off before its end"


async def test_data_too_large_for_a_reply_are_handed_back_when_asked_for(world: World) -> None:
    long = {"river": "x" * 60_000}
    async with an_endpoint(completion(json.dumps(long))) as other, asking(world, other.url) as ann:
        asked = {"text": TEXT, "schema": RIVER}
        assert (await ann.refused("extract_data", **asked))["code"] == "TOO_LARGE"
        assert (await ann.call("extract_data", **asked, detail=True))["data"] == long


async def test_a_stored_text_is_sent_with_its_author(world: World) -> None:
    artifact_id = await a_late_result(world.agent, TEXT)
    nile = completion(json.dumps(NILE))
    async with an_endpoint(nile) as other, asking(world, other.url) as agent:
        await agent.call("extract_data", artifactId=artifact_id, schema=RIVER)
        foreign = Agent(agent.doorway, world.neighbour.caller)
        error = await foreign.refused("extract_data", artifactId=artifact_id, schema=RIVER)
    assert error["code"] == "NOT_FOUND"
    (asked,) = other.asked
    sent = asked.body["messages"][1]["content"]
    assert TEXT in sent
    assert '"storedBy": "ann"' in sent


@pytest.mark.parametrize("more", [{"promptOnly": True}, {"candidate": NILE}])
async def test_who_does_it_themselves_asks_nobody(world: World, more: Body) -> None:
    async with an_endpoint(never) as other, asking(world, other.url) as agent:
        told = await agent.call("extract_data", text=TEXT, schema=RIVER, **more)
    assert told["status"] in {"do_it_yourself", "extracted"}
    assert other.asked == []


async def test_a_schema_that_is_refused_is_sent_to_nobody(world: World) -> None:
    async with an_endpoint(never) as other, asking(world, other.url) as agent:
        await agent.refused("extract_data", text=TEXT, schema={"$ref": "http://127.0.0.1:1"})
    assert other.asked == []


# Endpoints that know no shapes


@pytest.mark.parametrize(
    ("api", "said", "shape"),
    [("openai", completion, "response_format"), ("anthropic", message, "tools")],
)
@pytest.mark.parametrize("status", [400, 404, 422])
async def test_an_endpoint_that_knows_no_shapes_is_asked_plainly(
    world: World, api: str, said: Callable[[str], Play], shape: str, status: int
) -> None:
    plays = answer({"error": {"message": f"unknown: {shape}"}}, status), said(json.dumps(NILE))
    async with an_endpoint(*plays) as other, asking(world, other.url, api) as agent:
        told = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert told["data"] == NILE
    assert [shape in asked.body for asked in other.asked] == [True, False]


async def test_an_endpoint_that_refuses_either_way_is_told_with_its_words(world: World) -> None:
    error, other = await unavailable(world, answer({"error": "context too long"}, 400))
    assert "it answered 400: context too long" in error["message"]
    assert (error["details"], len(other.asked)) == ({"status": 400}, 2)


# It does not work


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("play", "said"),
    [
        (answer({"error": {"message": "overloaded"}}, 500), "500: overloaded"),
        (answer({}, 429), "answered 429"),
        (answer({}, 429, retry_after="3600"), "answered 429"),
        (answer({"error": {"message": f"no such key: {KEY}"}}, 401), "answered 401"),
        (answer("<html>"), "no JSON"),
        (answer({"choices": []}), "that is no "),
        (answer([]), "that is no "),
        (endlessly, "more than"),
        (half, "broke off"),
        (nonsense, "broke off"),
        (hang_up, "broke off"),
    ],
)
async def test_whatever_goes_wrong_there_is_a_way_on(
    world: World, api: str, play: Play, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error, _ = await unavailable(world, play, api=api)
    assert said in error["message"]
    assert KEY not in f"{json.dumps(error)} {caplog.text}"
    (warning,) = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert said in warning


@pytest.mark.parametrize("play", [never, drop_by_drop])
async def test_silence_ends_in_time(world: World, play: Play) -> None:
    error, _ = await unavailable(world, play, seconds=SHORT)
    assert "no whole answer within 0.2 s" in error["message"]


async def test_nobody_there_is_told(world: World) -> None:
    async with asking(world, await nobodys_url()) as agent:
        error = await agent.refused("extract_data", text=TEXT, schema=RIVER)
    assert "cannot be reached" in error["message"]
    assert error["next"]["args"] == {"promptOnly": True}


class Fading:
    """A model that says nonsense first and then nothing, and notes how long it was given."""

    def __init__(self) -> None:
        self.given: list[float] = []

    async def answer(self, question: Question, *, seconds: float) -> Told:
        assert question.schema == RIVER
        self.given.append(seconds)
        if len(self.given) > 1:
            raise EndpointFailed("it answered 500", status=500)
        return Told(text="[]", usage=Usage(input_tokens=12, output_tokens=3, model="m-2030"))


async def test_the_second_try_has_what_is_left_of_the_time(world: World) -> None:
    fading = Fading()
    house = replace(world.doorway.house, model=fading, model_seconds=SECONDS)
    agent = Agent(Doorway(house, CallLog(world.database)), world.agent.caller)
    error = await agent.refused("extract_data", text=TEXT, schema=RIVER)
    assert error["details"] == {"status": 500, "usage": USED}
    assert await noted(agent) == USED_ONCE
    first, second = fading.given
    assert first == SECONDS
    assert 0 < second < SECONDS


async def test_a_model_that_refuses_is_told(world: World) -> None:
    refusing = answer({"choices": [{"message": {"content": None, "refusal": "I won't."}}]})
    error, _ = await unavailable(world, refusing)
    assert "its model refused" in error["message"]


async def test_the_way_on_leads_on(world: World) -> None:
    async with an_endpoint(answer({}, 500)) as other, asking(world, other.url) as agent:
        asked: Body = {"text": TEXT, "schema": RIVER}
        error = await agent.refused("extract_data", **asked)
        told = await agent.call("extract_data", **asked, **error["next"]["args"])
        assert told["status"] == "do_it_yourself"
        done = await agent.call("extract_data", **asked, candidate=NILE)
        assert (done["status"], len(other.asked)) == ("extracted", 1)


async def test_somebody_who_calls_again_later_is_served_again(world: World) -> None:
    busy = answer({}, 429, retry_after="0")
    plays: Any = (busy, busy, completion(json.dumps(NILE)))
    async with an_endpoint(*plays) as other, asking(world, other.url) as agent:
        told = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert (told["data"], len(other.asked)) == (NILE, 3)
