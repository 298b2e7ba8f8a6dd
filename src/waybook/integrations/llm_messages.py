"""Language model requests and replies, independent of wire format, and JSON extraction."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from waybook.core.usage import Usage
from waybook.json_values import Json, refuse_constant

#: A larger token count is implausible and is reduced to this number.
MAX_TOKENS = 2**31 - 1


class ModelRequest(NamedTuple):
    instructions: str
    text: str
    schema: dict[str, Json]
    #: Whether to ask the endpoint to enforce the schema. Not every endpoint supports this.
    structured: bool = True


class ModelReply(NamedTuple):
    text: str
    usage: Usage
    truncated: bool = False


class Model(Protocol):
    async def complete(self, question: ModelRequest, *, seconds: float) -> ModelReply:
        """Send a request to the language model and return its reply within `seconds`.

        Raises:
            EndpointFailed: there was no usable answer.
        """


class WireFormat(NamedTuple):
    """Functions that define the wire format of a language model API."""

    address: Callable[[str], str]
    headers: Callable[[str | None], dict[str, str]]
    request: Callable[[ModelRequest, str], dict[str, Json]]
    read: Callable[[Json, str], ModelReply]


def parse_token_count(value: Json) -> int:
    """Return a token count reported by an endpoint, or 0 if it is not a positive integer.

    >>> [parse_token_count(value) for value in (12, -1, "12", True, None)]
    [12, 0, 0, 0, 0]
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return min(max(value, 0), MAX_TOKENS)


def get_path(value: Json, *path: str | int) -> Json:
    """Return the value at this path in a JSON value, or None if the path does not exist.

    >>> get_path({"a": [{"b": 1}]}, "a", 0, "b"), get_path({"a": []}, "a", 0, "b")
    (1, None)
    """
    for name in path:
        if isinstance(value, dict) and isinstance(name, str):
            value = value.get(name)
        elif isinstance(value, list) and isinstance(name, int):
            value = value[name] if name < len(value) else None
        else:
            return None
    return value


_THINKING_BLOCK = "</think>"
_CODE_FENCE = "```"
_MAX_FENCES = 8


def extract_json(text: str) -> Json:
    r"""Return the first JSON value found in a text, or raise `ValueError`.

    >>> extract_json('Here it is:\n```json\n{"a": 1}\n```'), extract_json('So: {"a": 2}.')
    ({'a': 1}, {'a': 2})
    """
    _, _, answer = text.rpartition(_THINKING_BLOCK)
    for piece in map(str.strip, _pieces(answer)):
        value: Json
        try:
            value, end = _DECODER.raw_decode(piece)
        except (ValueError, RecursionError):
            continue
        # In a longer text, accept only an object or array: a number or word at the start may be
        # prose.
        if end == len(piece) or isinstance(value, list | dict):
            return value
    raise ValueError("there is no JSON in the text")


def _pieces(answer: str) -> Iterator[str]:
    yield answer
    for fenced in answer.split(_CODE_FENCE, 2 * _MAX_FENCES)[1::2]:
        first, _, rest = fenced.partition("\n")
        yield fenced if first.strip()[:1] in {"{", "["} else rest
    starts = [place for place in (answer.find("{"), answer.find("[")) if place >= 0]
    if starts:
        yield answer[min(starts) :]


_DECODER = json.JSONDecoder(parse_constant=refuse_constant)
