"""The JSON in what a model says: alone, in a code fence, after some thinking, or among words."""

import json
from collections.abc import Iterator

from waybook.record.moment import Json

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
