"""What a model is asked, and what it says, whichever way it is spoken to.

The JSON in what a model says: alone, in a code fence, after some thinking, or among words.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from waybook.core.usage import Usage
from waybook.json_values import Json

#: More tokens than this nobody used.
MAX_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    #: What the model is told by us.
    instructions: str
    #: What it is to look at, which may be anybody's.
    text: str
    #: The shape its answer is to have.
    schema: dict[str, Json]
    #: Whether the endpoint is to hold the model to that shape, which not every one can.
    structured: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model said, and what that took."""

    text: str
    #: As the endpoint says.
    usage: Usage
    #: Whether it was stopped before its end.
    truncated: bool = False


class Model(Protocol):
    """A model that somebody serves."""

    async def complete(self, question: ModelRequest, *, seconds: float) -> ModelReply:
        """What the model says, within so many seconds.

        Raises:
            EndpointFailed: there was no answer that can be used.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """One way to speak to models over HTTP: pure, the exchange itself is somebody else's."""

    #: The address to post to, by the one that was configured.
    address: Callable[[str], str]
    #: The headers, by the key if there is one.
    headers: Callable[[str | None], dict[str, str]]
    #: The body, by the question and the model's name.
    request: Callable[[ModelRequest, str], dict[str, Json]]
    #: What the answer says, for a model of that name.
    read: Callable[[Json, str], ModelReply]


def parse_token_count(told: Json) -> int:
    """A number of tokens as an endpoint told it; nothing that is none.

    >>> (
    ...     parse_token_count(12),
    ...     parse_token_count(-1),
    ...     parse_token_count("12"),
    ...     parse_token_count(True),
    ...     parse_token_count(None),
    ... )
    (12, 0, 0, 0, 0)
    """
    counts = isinstance(told, int) and not isinstance(told, bool) and told > 0
    return min(told, MAX_TOKENS) if counts and isinstance(told, int) else 0


def get_path(value: Json, *path: str | int) -> Json:
    """What stands at this place, or null if there is no such place.

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


THINKING_BLOCK = "</think>"
CODE_FENCE = "```"
#: How many fences are looked into.
MAX_FENCES = 8


def extract_json(text: str) -> Json:
    r"""The first JSON there is.

    Raises:
        ValueError: there is none.

    >>> (
    ...     extract_json('Here it is:\n```json\n{"a": 1}\n```'),
    ...     extract_json("[1]"),
    ...     extract_json('So: {"a": 2}.'),
    ... )
    ({'a': 1}, [1], {'a': 2})
    """
    _, _, said = text.rpartition(THINKING_BLOCK)
    for piece in _pieces(said):
        try:
            return _decoded(piece)
        except (ValueError, RecursionError):
            continue
    raise ValueError("there is no JSON in it")


def _pieces(said: str) -> Iterator[str]:
    yield said
    for fenced in said.split(CODE_FENCE, 2 * MAX_FENCES)[1::2]:
        first, _, rest = fenced.partition("\n")
        yield fenced if first.strip()[:1] in {"{", "["} else rest
    starts = [place for place in (said.find("{"), said.find("[")) if place >= 0]
    if starts:
        yield said[min(starts) :]


def _decoded(piece: str) -> Json:
    """The JSON at the beginning; only an array or an object may have words behind it."""
    piece = piece.strip()
    value: Json
    value, end = _DECODER.raw_decode(piece)
    if end < len(piece) and not isinstance(value, list | dict):
        raise ValueError("words, not JSON")
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
