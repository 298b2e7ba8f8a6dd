"""Checks whether JSON values from callers can be stored, and how large they are."""

from math import isfinite
from typing import Any, Final

import orjson

from waybook.errors import InvalidInput, TooLarge

MAX_BODY: Final = 1024 * 1024
MAX_DEPTH: Final = 64
MAX_INT: Final = 2**63 - 1
#: Limits of `is_plain_json` for nesting depth, number of values, and number of characters.
MAX_PLAIN_DEPTH: Final = 2
MAX_PLAIN_VALUES: Final = 16
MAX_PLAIN_LENGTH: Final = 16 * 1024
CONTAINERS: Final = frozenset({dict, list})


def _check_text(text: str) -> int:
    if "\0" in text:
        raise InvalidInput(
            "a text contains a NUL character (\\u0000), which cannot be stored; remove it"
        )
    if text.isascii():
        return len(text) + 2
    try:
        return len(text.encode()) + 2
    except UnicodeEncodeError:
        raise InvalidInput(
            "a text contains a lone surrogate (half a character); send valid Unicode"
        ) from None


def _bounded(size: int) -> int:
    if size > MAX_BODY:
        raise TooLarge(
            f"the arguments are longer than the limit of {MAX_BODY:,} bytes",
            limit=MAX_BODY,
        )
    return size


def is_plain_json(value: object) -> bool:
    """Return whether a JSON object or array is small and can certainly be stored.

    If not, `check_json` must check it, which takes longer.
    """
    # Serialize only small values, because orjson crashes if it runs out of memory.
    return type(value) in CONTAINERS and is_small(value) and is_plain_if_small(value)


def is_plain_if_small(value: object) -> bool:
    try:
        text = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return False
    # Reject NUL characters, and `null`, which orjson also writes for infinite numbers.
    return b"\\u0000" not in text and b"null" not in text


def is_small(container: Any, depth: int = MAX_PLAIN_DEPTH) -> bool:  # noqa: ANN401 - an object or array
    """Return whether an object or array has few values, short texts, and few levels."""
    if len(container) > MAX_PLAIN_VALUES:
        return False
    values = container.values() if type(container) is dict else container
    texts = [text for text in values if type(text) is str]
    if type(container) is dict:
        texts += container
    if texts and sum(map(len, texts)) > MAX_PLAIN_LENGTH:
        return False
    for value in values:
        if type(value) in CONTAINERS and not (depth and is_small(value, depth - 1)):
            return False
    return True


def check_json(value: object, depth: int = 0) -> int:
    """Return the rough size of a JSON value in bytes, and reject values that cannot be stored.

    Raises:
        InvalidInput: the value has NUL characters, lone surrogates, numbers beyond 64 bits, or is
        nested too deeply.
        TooLarge: the size exceeds the limit of a call.
    """
    if depth > MAX_DEPTH:
        raise InvalidInput(
            f"the arguments are nested more than {MAX_DEPTH} levels deep", limit=MAX_DEPTH
        )
    if isinstance(value, dict):
        # Check all texts joined into one, because one check is faster than many.
        texts = [inner for inner in value.values() if type(inner) is str]
        others = [inner for inner in value.values() if type(inner) is not str]
        size = _check_text("".join([*value, *texts])) + 2 * len(value) + 4 * len(texts)
        for inner in others:
            size += 2 + check_json(inner, depth + 1)
        return _bounded(size)
    if isinstance(value, list):
        size = 2
        for inner in value:
            # Most long lists contain small integers, for which this shorter check suffices.
            is_small = type(inner) is int and -MAX_INT <= inner <= MAX_INT
            size += 9 if is_small else check_json(inner, depth + 1) + 1
        return _bounded(size)
    if isinstance(value, str):
        return _check_text(value)
    if type(value) is int and not -MAX_INT <= value <= MAX_INT:
        raise InvalidInput("a whole number does not fit into 64 bits; send it as a text")
    if type(value) is float and not isfinite(value):
        raise InvalidInput("a number is not finite (NaN, Infinity or beyond 1e308)")
    return 8
