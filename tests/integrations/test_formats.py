"""Clients of language models: requests and answers in the formats of OpenAI and Anthropic."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_endpoint import answer, fake_endpoint
from waybook.core.usage import Usage
from waybook.errors import EndpointFailed
from waybook.integrations.factory import open_model
from waybook.integrations.llm_client import ANTHROPIC, MAX_TOKENS, OPENAI
from waybook.integrations.llm_messages import ModelRequest, WireFormat, extract_json
from waybook.json_values import Json
from waybook.settings import Settings

SCHEMA: dict[str, Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
}
SHAPED = ModelRequest(instructions="Do it.", text="Words.", schema=SCHEMA)
PLAIN = ModelRequest(instructions="Do it.", text="Words.", schema=SCHEMA, structured=False)
BOTH = pytest.mark.parametrize("form", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])


# Tests of OpenAI's API format.


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("http://127.0.0.1:1/v1/", "http://127.0.0.1:1/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
    ],
)
def test_openai_request_url_ends_with_chat_completions(url: str, address: str) -> None:
    assert OPENAI.address(url) == address


def test_openai_request_with_schema_sets_response_format() -> None:
    messages = [{"role": "system", "content": "Do it."}, {"role": "user", "content": "Words."}]
    shape = {"type": "json_schema", "json_schema": {"name": "data", "schema": SCHEMA}}
    plain = {"model": "m", "messages": messages}
    assert OPENAI.request(PLAIN, "m") == plain
    assert OPENAI.request(SHAPED, "m") == {**plain, "response_format": shape}
    assert OPENAI.headers("k") == {"authorization": "Bearer k"}
    assert OPENAI.headers(None) == {}


def make_completion(content: Json, **more: Any) -> dict[str, Json]:  # noqa: ANN401 - anything
    message = {"role": "assistant", "content": content, **more}
    choice: Json = {"index": 0, "message": message, "finish_reason": "stop"}
    usage: Json = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return {"id": "1", "model": "m-2030", "choices": [choice], "usage": usage}


@pytest.mark.parametrize("content", ["[1]", [{"type": "text", "text": "[1"}, {"text": "]"}]])
def test_openai_answer_is_read_as_text_and_token_usage(content: Json) -> None:
    reply = OPENAI.read(make_completion(content), "m")
    assert (reply.text, reply.truncated) == ("[1]", False)
    assert reply.usage == Usage(input_tokens=12, output_tokens=3, model="m-2030")


def test_openai_answer_stopped_at_length_limit_is_marked_truncated() -> None:
    answer: Json = {"choices": [{"message": {"content": "[1"}, "finish_reason": "length"}]}
    reply = OPENAI.read(answer, "m")
    assert (reply.text, reply.truncated, reply.usage.model) == ("[1", True, "m")


# Tests of Anthropic's API format.


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("http://127.0.0.1:1/v1/", "http://127.0.0.1:1/v1/messages"),
        ("http://h/v1/messages", "http://h/v1/messages"),
    ],
)
def test_anthropic_request_url_ends_with_messages(url: str, address: str) -> None:
    assert ANTHROPIC.address(url) == address


def test_anthropic_request_with_schema_forces_tool_use() -> None:
    plain = {
        "model": "m",
        "max_tokens": MAX_TOKENS,
        "system": "Do it.",
        "messages": [{"role": "user", "content": "Words."}],
    }
    assert ANTHROPIC.request(PLAIN, "m") == plain
    shaped: Any = ANTHROPIC.request(SHAPED, "m")
    (tool,) = shaped.pop("tools")
    assert shaped == {**plain, "tool_choice": {"type": "tool", "name": tool["name"]}}
    assert tool["input_schema"] == {
        "type": "object",
        "properties": {"data": {"type": "array"}},
        "required": ["data"],
    }
    assert ANTHROPIC.headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert ANTHROPIC.headers(None) == {"anthropic-version": "2023-06-01"}


def make_message(*blocks: Json, stop: str = "end_turn") -> dict[str, Json]:
    usage: Json = {"input_tokens": 10, "cache_read_input_tokens": 2, "output_tokens": 3}
    return {"model": "m-2030", "content": [*blocks], "stop_reason": stop, "usage": usage}


def handed_in(data: Json) -> Json:
    return {"type": "tool_use", "id": "1", "name": "hand_in", "input": data}


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([handed_in({"data": [1]})], "[1]"),
        ([{"type": "thinking", "thinking": "…"}, handed_in({"data": None})], "null"),
        ([handed_in({"river": "Nile"})], '{"river": "Nile"}'),
        ([{"type": "text", "text": "[1"}, {"type": "text", "text": "]"}], "[1]"),
        ([{"type": "text", "text": "So:"}, handed_in({"data": 1})], "1"),
        ([], ""),
    ],
)
def test_anthropic_answer_is_read_as_text_and_token_usage(blocks: list[Json], text: str) -> None:
    reply = ANTHROPIC.read(make_message(*blocks), "m")
    assert (reply.text, reply.truncated) == (text, False)
    assert reply.usage == Usage(input_tokens=12, output_tokens=3, model="m-2030")


def test_anthropic_answer_stopped_at_max_tokens_is_marked_truncated() -> None:
    assert ANTHROPIC.read(make_message(stop="max_tokens"), "m").truncated


# Tests of both API formats.


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (OPENAI, make_completion(None, refusal="I won't.")),
        (ANTHROPIC, make_message(stop="refusal")),
    ],
)
def test_refusal_by_the_model_raises_endpoint_failed(form: WireFormat, answer: Json) -> None:
    with pytest.raises(EndpointFailed, match="refused"):
        form.read(answer, "m")


NAMES = [
    *("choices", "message", "content", "text", "type", "input", "usage", "model"),
    *("prompt_tokens", "input_tokens", "stop_reason", "finish_reason", "refusal"),
]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["text", "tool_use", "", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=20,
)


@BOTH
@given(answer=ANY)
def test_arbitrary_model_answer_is_read_or_raises_endpoint_failed(
    form: WireFormat, answer: Json
) -> None:
    try:
        reply = form.read(answer, "m")
    except EndpointFailed:
        return
    assert isinstance(reply.text, str)
    assert (reply.usage.input_tokens or 0) >= 0
    assert (reply.usage.output_tokens or 0) >= 0
    assert reply.usage.model


# Tests of JSON in model answers.


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
WRAPPINGS = [
    "{}",
    "\n  {}\n",
    "```json\n{}\n```",
    "```\n{}\n```",
    "Here you are:\n\n```json\n{}\n```\n\nAnything else?",
    '<think>Let me see: {{"a": maybe?</think>\n{}',
]


@given(value=JSON, wrapping=st.sampled_from(WRAPPINGS))
def test_json_is_extracted_from_every_form_of_model_answer(value: Json, wrapping: str) -> None:
    assert extract_json(wrapping.format(json.dumps(value))) == value


@given(value=JSON.filter(lambda value: isinstance(value, dict | list)))
def test_json_is_extracted_from_surrounding_text(value: Json) -> None:
    assert extract_json(f"The data are {json.dumps(value)}, I think.") == value


@given(text=st.text())
def test_extracting_json_from_any_text_raises_only_value_error(text: str) -> None:
    try:
        extract_json(text)
    except ValueError:
        return


@pytest.mark.parametrize(
    "text", ["", "No.", "3 rivers", "{", "[1,", "NaN", "[Infinity]", "{'a': 1}", "9" * 5_000]
)
def test_text_without_json_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        extract_json(text)


@pytest.mark.parametrize(
    "text", ["[" * 1_000_000, "```" * 700_000, '{"a":' * 400_000, "```\n[" * 400_000]
)
def test_json_extraction_from_long_unclosed_text_ends_within_5_seconds(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="no JSON"):
        extract_json(text)
    assert time.process_time() - began < 5


# Tests of model clients. A client exists only if a model URL is configured.


QUESTION = ModelRequest(instructions="Do it.", text="Words.", schema={})


async def test_no_model_client_is_opened_without_a_model_url() -> None:
    async with open_model(Settings()) as model:
        assert model is None


async def test_model_client_opened_with_a_url_completes_a_prompt() -> None:
    reply = {"choices": [{"message": {"content": "[1]"}}]}
    async with fake_endpoint(answer(reply)) as other:
        settings = Settings(model_url=other.url, model="m", model_key="k")
        async with open_model(settings) as model:
            assert model is not None
            assert (await model.complete(QUESTION, seconds=20)).text == "[1]"
    (request,) = other.requests
    assert (request.body["model"], request.headers["authorization"]) == ("m", "Bearer k")


async def test_model_with_anthropic_api_sends_requests_in_messages_format() -> None:
    reply = {"content": [{"type": "text", "text": "[1]"}]}
    async with fake_endpoint(answer(reply)) as other:
        settings = Settings(model_url=f"{other.url}/v1/messages/", model="m")
        async with open_model(settings) as model:
            assert model is not None
            assert (await model.complete(QUESTION, seconds=20)).text == "[1]"
    (request,) = other.requests
    assert request.path == "/v1/messages"
    assert "x-api-key" not in request.headers
