"""Server with a fake language model, and answers of this model, for tests of `extract_data`."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from fake_endpoint import EndpointServer, Play, answer, fake_endpoint
from org_env import AgentClient, Body, OrgEnv
from waybook.app.queries.usage import count_usage
from waybook.app.request.request_context import RequestContext
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.usage import Totals
from waybook.integrations.llm_client import ModelClient
from waybook.json_values import Json
from waybook.store.calls import CallLog

KEY = "sk-of-the-operator"
RIVER: Body = {"type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"]}
NILE = {"river": "Nile"}
TEXT = "The Nile is 6,650 km long."
SECONDS = 20.0
#: Timeout in seconds for a model that does not answer, long enough for the request to arrive.
SHORT = 0.2
USED = {"inputTokens": 12, "outputTokens": 3, "model": "m-2030"}
TWICE = {"inputTokens": 24, "outputTokens": 6, "model": "m-2030"}


def completion(text: str, **choice: Json) -> Play:
    message: Json = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return answer({"model": "m-2030", "choices": [{"message": message, **choice}], "usage": usage})


def message(text: str) -> Play:
    usage = {"input_tokens": 12, "output_tokens": 3}
    blocks = [{"type": "text", "text": text}]
    return answer({"model": "m-2030", "content": blocks, "stop_reason": "end_turn", "usage": usage})


def tool_use_reply(text: str) -> Play:
    """Return a model's HTTP response that calls the required tool, with this JSON as its input."""
    usage = {"input_tokens": 12, "output_tokens": 3}
    block = {"type": "tool_use", "id": "1", "name": "hand_in", "input": {"data": json.loads(text)}}
    payload = {"model": "m-2030", "content": [block], "stop_reason": "tool_use", "usage": usage}
    return answer(payload)


#: API formats, each with a function that builds the HTTP response for a model's text.
WAYS: dict[str, tuple[str, Callable[[str], Play]]] = {
    "openai": ("openai", completion),
    "anthropic": ("anthropic", tool_use_reply),
    "anthropic, in words": ("anthropic", message),
}
each_way = pytest.mark.parametrize("way", WAYS)


@asynccontextmanager
async def model_requests(
    world: OrgEnv, url: str, api: str = "openai", seconds: float = SECONDS
) -> AsyncIterator[AgentClient]:
    """Yield an agent whose server uses the language model at this URL."""
    path = "/v1/messages" if api == "anthropic" else "/v1"
    model = ModelClient(url=url + path, model="m", key=KEY)
    services = replace(world.dispatcher.services, model=model, model_seconds=seconds)
    try:
        yield AgentClient(ServerDispatcher(services, CallLog(world.database)), world.agent.caller)
    finally:
        await model.close()


async def extracted(world: OrgEnv, way: str, *texts: str) -> tuple[Body, EndpointServer]:
    """Return the reply of `extract_data` if the model answers with these texts in turn."""
    api, make_play = WAYS[way]
    async with (
        fake_endpoint(*map(make_play, texts)) as other,
        model_requests(world, other.url, api) as agent,
    ):
        return await agent.call("extract_data", text=TEXT, schema=RIVER), other


async def unavailable(
    world: OrgEnv, *plays: Play, api: str = "openai", seconds: float = SECONDS
) -> tuple[Body, EndpointServer]:
    """Return the error of `extract_data` if the model's endpoint behaves in these ways in turn."""
    async with (
        fake_endpoint(*plays) as other,
        model_requests(world, other.url, api, seconds) as agent,
    ):
        error = await agent.refused("extract_data", text=TEXT, schema=RIVER)
    assert error["code"] == "UNAVAILABLE"
    assert error["next"]["tool"] == "extract_data"
    assert error["next"]["args"] == {"promptOnly": True}
    return error, other


#: Usage totals of an org after one call of the fake model.
USED_ONCE = Totals(input_tokens=12, output_tokens=3, results=1)


async def recorded_usage(agent: AgentClient) -> Totals:
    """Return the org's usage totals; check that `extract_data` caused them all."""
    org_usage = await count_usage(
        RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    )
    assert [(entry.kind, entry.name, entry.usage) for entry in org_usage.work] == [
        ("tool", "extract_data", org_usage.usage)
    ]
    return org_usage.usage
