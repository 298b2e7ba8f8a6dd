"""Language model requests and replies, independent of wire format."""

from collections.abc import Callable
from typing import NamedTuple

from waybook.core.usage import Usage
from waybook.json_values import Json

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
