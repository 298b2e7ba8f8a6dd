"""Measures and truncates texts, and divides a size limit between several texts.

Sizes are bytes of compact JSON.
"""

from collections.abc import Sequence
from typing import TypeAlias

import orjson

from waybook.json_values import Json

SpaceClaim: TypeAlias = tuple[int, int, int]


def json_size(value: Json) -> int:
    return len(orjson.dumps(value))


def as_text(value: Json) -> str:
    """Return a string unchanged, and any other value as compact JSON text.

    >>> as_text("It rains."), as_text({"river": "Nile"})
    ('It rains.', '{"river":"Nile"}')
    """
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def escaped_size(text: str) -> int:
    r"""Return the bytes of a text as JSON, without its quotes.

    >>> escaped_size("abc"), escaped_size("a\n"), escaped_size("☃")
    (3, 3, 3)
    """
    return len(orjson.dumps(text)) - 2


def truncate(text: str, most: int) -> str:
    """Return the longest prefix of a text that takes at most `most` bytes as JSON.

    >>> truncate("a☃b", 4), truncate("abc", 9)
    ('a☃', 'abc')
    """
    if len(text) <= most and escaped_size(text) <= most:
        return text
    fits, beyond = 0, min(len(text), max(0, most)) + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if escaped_size(text[:middle]) <= most:
            fits = middle
        else:
            beyond = middle
    return text[:fits]


def fair_share(lengths: list[int], budget: int) -> int:
    """Return the maximum length per item with which all items fit in the budget.

    >>> fair_share([10, 100, 100], 110)
    50
    """
    left, heads = budget, len(lengths)
    for length in sorted(lengths):
        if length * heads > left:
            return left // heads
        left, heads = left - length, heads - 1
    return budget


def allocate_space(claims: Sequence[SpaceClaim], room: int) -> list[int]:
    """Divide space between items by weight, within each item's minimum and maximum size.

    >>> allocate_space([(10, 5, 1), (100, 5, 1), (100, 5, 2)], 100)
    [10, 30, 60]
    """
    low, high = 0, max(0, room)
    while low < high:
        level = (low + high + 1) // 2
        if sum(_allocate_at_level(claims, level)) <= room:
            low = level
        else:
            high = level - 1
    return _allocate_at_level(claims, low)


def _allocate_at_level(claims: Sequence[SpaceClaim], level: int) -> list[int]:
    return [min(most, max(floor, level * counts)) for most, floor, counts in claims]
