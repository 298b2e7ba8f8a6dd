"""Wire format of Anthropic's Messages API."""

import json

from waybook.core.usage import Usage
from waybook.errors import EndpointFailed
from waybook.integrations.llm_messages import (
    ModelReply,
    ModelRequest,
    WireFormat,
    get_path,
    parse_token_count,
)
from waybook.json_values import Json

VERSION = "2023-06-01"
#: The API requires a maximum number of answer tokens in every request.
MAX_TOKENS = 8_192
TOOL = "hand_in"


def endpoint_url(url: str) -> str:
    """Return the URL of the Messages API endpoint.

    >>> endpoint_url("https://api.anthropic.com"), endpoint_url("http://127.0.0.1/v1")
    ('https://api.anthropic.com/v1/messages', 'http://127.0.0.1/v1/messages')
    """
    url = url.rstrip("/")
    if url.endswith("/messages"):
        return url
    return f"{url}/messages" if url.endswith("/v1") else f"{url}/v1/messages"


def headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


def build_request(question: ModelRequest, model: str) -> dict[str, Json]:
    body: dict[str, Json] = {
        "model": model,
        "max_tokens": MAX_TOKENS,
        "system": question.instructions,
        "messages": [{"role": "user", "content": question.text}],
    }
    if question.structured:
        body["tools"] = [_tool(question.schema)]
        body["tool_choice"] = {"type": "tool", "name": TOOL}
    return body


def _tool(schema: dict[str, Json]) -> dict[str, Json]:
    """Return the definition of a tool whose input field `data` is the extracted data."""
    shape: Json = {name: value for name, value in schema.items() if name != "$schema"}
    taken: Json = {"type": "object", "properties": {"data": shape}, "required": ["data"]}
    description = "Hand in the data that were extracted."
    return {"name": TOOL, "description": description, "input_schema": taken}


def parse_reply(answer: Json, model: str) -> ModelReply:
    """Return the model's reply: its tool input, or its text if it called no tool.

    Raises:
        EndpointFailed: the JSON is not a message, or the model refused to answer.
    """
    blocks = get_path(answer, "content")
    if not isinstance(blocks, list):
        raise EndpointFailed("its answer is not a message of the Anthropic API")
    stopped = get_path(answer, "stop_reason")
    if stopped == "refusal":
        raise EndpointFailed("the model refused to answer")
    named = get_path(answer, "model")
    return ModelReply(
        text=_handed_in(blocks) or _join_texts(blocks),
        usage=Usage(
            input_tokens=sum(
                parse_token_count(get_path(answer, "usage", name)) for name in _INPUT_TOKEN_FIELDS
            ),
            output_tokens=parse_token_count(get_path(answer, "usage", "output_tokens")),
            model=named[:200] if isinstance(named, str) and named else model,
        ),
        truncated=stopped == "max_tokens",
    )


#: The API counts cached and uncached input tokens separately.
_INPUT_TOKEN_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _handed_in(blocks: list[Json]) -> str | None:
    for block in blocks:
        handed = get_path(block, "input")
        if get_path(block, "type") == "tool_use" and isinstance(handed, dict):
            return json.dumps(handed["data"] if set(handed) == {"data"} else handed)
    return None


def _join_texts(blocks: list[Json]) -> str:
    texts = (get_path(block, "text") for block in blocks if get_path(block, "type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


ANTHROPIC = WireFormat(
    address=endpoint_url, headers=headers, request=build_request, read=parse_reply
)
