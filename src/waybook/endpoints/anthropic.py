"""Messages, as Anthropic speaks them.

The model is held to the schema by a tool it must use. Some models take no such order; then they
answer in words, with JSON in them.
"""

import json

from waybook.endpoints.question import Format, Question, Told, part, tokens
from waybook.errors import EndpointFailed
from waybook.record.moment import Json
from waybook.record.usage import Usage

VERSION = "2023-06-01"
#: What must be said here, and may not be more than the model's own limit.
MOST_TOKENS = 8_192
TOOL = "hand_in"


def address(url: str) -> str:
    """The address of messages.

    >>> address("https://api.anthropic.com"), address("http://127.0.0.1/v1")
    ('https://api.anthropic.com/v1/messages', 'http://127.0.0.1/v1/messages')
    """
    url = url.rstrip("/")
    if url.endswith("/messages"):
        return url
    return f"{url}/messages" if url.endswith("/v1") else f"{url}/v1/messages"


def headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


def request(question: Question, model: str) -> dict[str, Json]:
    """The body of a request."""
    body: dict[str, Json] = {
        "model": model,
        "max_tokens": MOST_TOKENS,
        "system": question.instructions,
        "messages": [{"role": "user", "content": question.text}],
    }
    if question.shaped:
        body["tools"] = [_tool(question.schema)]
        body["tool_choice"] = {"type": "tool", "name": TOOL}
    return body


def _tool(schema: dict[str, Json]) -> dict[str, Json]:
    """A tool takes an object, a schema may ask for anything: so the data are one argument."""
    shape: Json = {name: value for name, value in schema.items() if name != "$schema"}
    taken: Json = {"type": "object", "properties": {"data": shape}, "required": ["data"]}
    told = "Hand in the data that were extracted."
    return {"name": TOOL, "description": told, "input_schema": taken}


def read(answer: Json, model: str) -> Told:
    """What the model said, or handed in.

    Raises:
        EndpointFailed: this is no message, or the model would not.
    """
    blocks = part(answer, "content")
    if not isinstance(blocks, list):
        raise EndpointFailed("it answered with something that is no message")
    stopped = part(answer, "stop_reason")
    if stopped == "refusal":
        raise EndpointFailed("its model refused")
    named = part(answer, "model")
    return Told(
        text=_handed_in(blocks) or _said(blocks),
        usage=Usage(
            input_tokens=sum(tokens(part(answer, "usage", name)) for name in INPUT),
            output_tokens=tokens(part(answer, "usage", "output_tokens")),
            model=named[:200] if isinstance(named, str) and named else model,
        ),
        cut=stopped == "max_tokens",
    )


#: What came in is told in parts, by whether it was remembered from before.
INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _handed_in(blocks: list[Json]) -> str | None:
    for block in blocks:
        handed = part(block, "input")
        if part(block, "type") == "tool_use" and isinstance(handed, dict):
            return json.dumps(handed["data"] if set(handed) == {"data"} else handed)
    return None


def _said(blocks: list[Json]) -> str:
    said = (part(block, "text") for block in blocks if part(block, "type") == "text")
    return "".join(text for text in said if isinstance(text, str))


ANTHROPIC = Format(address=address, headers=headers, request=request, read=read)
