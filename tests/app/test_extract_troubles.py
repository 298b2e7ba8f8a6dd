"""Replies of `extract_data` with a failing language model."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from app.fake_model import (
    KEY,
    NILE,
    RIVER,
    SECONDS,
    SHORT,
    TEXT,
    USED,
    USED_ONCE,
    completion,
    message,
    model_requests,
    recorded_usage,
    unavailable,
)
from fake_endpoint import (
    Play,
    answer,
    close_early,
    endless_body,
    fake_endpoint,
    invalid_body,
    never_respond,
    slow_body,
    truncated_body,
)
from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import ServerDatabase
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.usage import Usage
from waybook.errors import EndpointFailed
from waybook.integrations.llm_messages import ModelReply, ModelRequest
from waybook.store.calls import CallLog


@pytest.fixture
async def world(module_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(module_place) as made:
        yield made


@pytest.mark.parametrize(
    ("api", "said", "shape"),
    [("openai", completion, "response_format"), ("anthropic", message, "tools")],
)
@pytest.mark.parametrize("status", [400, 404, 422])
async def test_extract_data_retries_without_rejected_structured_output_option(
    world: OrgEnv, api: str, said: Callable[[str], Play], shape: str, status: int
) -> None:
    plays = answer({"error": {"message": f"unknown: {shape}"}}, status), said(json.dumps(NILE))
    async with fake_endpoint(*plays) as other, model_requests(world, other.url, api) as agent:
        reply = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert reply["data"] == NILE
    assert [shape in request.body for request in other.requests] == [True, False]


async def test_extract_data_reports_endpoint_message_after_second_400_answer(world: OrgEnv) -> None:
    error, other = await unavailable(world, answer({"error": "context too long"}, 400))
    assert "it answered 400: context too long" in error["message"]
    assert (error["details"], len(other.requests)) == ({"status": 400}, 2)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("play", "said"),
    [
        (answer({"error": {"message": "overloaded"}}, 500), "500: overloaded"),
        (answer({}, 429), "answered 429"),
        (answer({}, 429, retry_after="3600"), "answered 429"),
        (answer({"error": {"message": f"no such key: {KEY}"}}, 401), "answered 401"),
        (answer("<html>"), "not answer with JSON"),
        (answer({"choices": []}), "its answer is not a "),
        (answer([]), "its answer is not a "),
        (endless_body, "more than"),
        (truncated_body, "connection broke"),
        (invalid_body, "connection broke"),
        (close_early, "connection broke"),
    ],
)
async def test_extract_data_reports_endpoint_failure_without_leaking_api_key(
    world: OrgEnv, api: str, play: Play, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error, _ = await unavailable(world, play, api=api)
    assert said in error["message"]
    assert KEY not in f"{json.dumps(error)} {caplog.text}"
    (warning,) = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert said in warning


@pytest.mark.parametrize("play", [never_respond, slow_body])
async def test_extract_data_returns_unavailable_after_endpoint_timeout(
    world: OrgEnv, play: Play
) -> None:
    error, _ = await unavailable(world, play, seconds=SHORT)
    assert "did not finish answering within 0.2 s" in error["message"]


class Fading:
    """Fake model that first answers with invalid data and then fails; it records the timeouts."""

    def __init__(self) -> None:
        self.given: list[float] = []

    async def complete(self, question: ModelRequest, *, seconds: float) -> ModelReply:
        assert question.schema == RIVER
        self.given.append(seconds)
        if len(self.given) > 1:
            raise EndpointFailed("it answered 500", status=500)
        loop = asyncio.get_running_loop()
        begun = (
            loop.time()
        )  # The clock of uvloop stands still until the next iteration of the loop.
        while loop.time() == begun:  # noqa: ASYNC110 - there is no event for that
            await asyncio.sleep(0)
        return ModelReply(text="[]", usage=Usage(input_tokens=12, output_tokens=3, model="m-2030"))


async def test_second_model_request_gets_only_the_remaining_time(world: OrgEnv) -> None:
    fading = Fading()
    services = replace(world.dispatcher.services, model=fading, model_seconds=SECONDS)
    agent = AgentClient(ServerDispatcher(services, CallLog(world.database)), world.agent.caller)
    error = await agent.refused("extract_data", text=TEXT, schema=RIVER)
    assert error["details"] == {"status": 500, "usage": USED}
    assert await recorded_usage(agent) == USED_ONCE
    first, second = fading.given
    assert first == SECONDS
    assert 0 < second < SECONDS


async def test_extract_data_reports_that_the_model_refused_to_answer(world: OrgEnv) -> None:
    refusing = answer({"choices": [{"message": {"content": None, "refusal": "I won't."}}]})
    error, _ = await unavailable(world, refusing)
    assert "the model refused to answer" in error["message"]


async def test_call_suggested_after_model_failure_succeeds(world: OrgEnv) -> None:
    async with fake_endpoint(answer({}, 500)) as other, model_requests(world, other.url) as agent:
        args: Body = {"text": TEXT, "schema": RIVER}
        error = await agent.refused("extract_data", **args)
        reply = await agent.call("extract_data", **args, **error["next"]["args"])
        assert reply["status"] == "do_it_yourself"
        done = await agent.call("extract_data", **args, candidate=NILE)
        assert (done["status"], len(other.requests)) == ("extracted", 1)


async def test_extract_data_retries_until_success_after_429_answers(world: OrgEnv) -> None:
    busy = answer({}, 429, retry_after="0")
    plays: Any = (busy, busy, completion(json.dumps(NILE)))
    async with fake_endpoint(*plays) as other, model_requests(world, other.url) as agent:
        reply = await agent.call("extract_data", text=TEXT, schema=RIVER)
    assert (reply["data"], len(other.requests)) == (NILE, 3)
