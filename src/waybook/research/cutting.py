"""Texts and lists made to fit: what they take in a reply, and how room is divided fairly.

Everything is measured in bytes of compact JSON. A byte is never less than a character, so what
keeps to bytes keeps to characters too, and a text in a script of long characters, which costs a
model more, is given less of them.
"""

from collections.abc import Sequence
from typing import TypeAlias

import orjson

from waybook.json_values import Json

#: What somebody can use at most, what it needs at least, and how much it counts.
SpaceClaim: TypeAlias = tuple[int, int, int]


def json_size(value: Json) -> int:
    """What a value takes in a reply, in bytes."""
    return len(orjson.dumps(value))


def as_text(value: Json) -> str:
    """A value as a text that can be cut: itself, or its compact JSON.

    >>> as_text("It rains."), as_text({"river": "Nile"})
    ('It rains.', '{"river":"Nile"}')
    """
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def escaped_size(text: str) -> int:
    r"""What a text takes in a reply, in bytes, without its quotes.

    >>> escaped_size("abc"), escaped_size("a\n"), escaped_size("☃")
    (3, 3, 3)
    """
    return len(orjson.dumps(text)) - 2


def truncate(text: str, most: int) -> str:
    """As much of a text as takes at most so many bytes in a reply.

    >>> truncate("a☃b", 4), truncate("abc", 9)
    ('a☃', 'abc')
    """
    fits, beyond = 0, min(len(text), max(0, most)) + 1
    while beyond - fits > 1:
        middle = (fits + beyond) // 2
        if escaped_size(text[:middle]) <= most:
            fits = middle
        else:
            beyond = middle
    return text[:fits]


def fair_share(lengths: list[int], budget: int) -> int:
    """The length up to which everyone may stay so that all fit.

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
    """What each gets of the room: all it can use, or its floor, or a share by its weight.

    There is one level for all: nobody gets less because somebody else is long. The floors
    together must fit.

    >>> allocate_space([(10, 5, 1), (100, 5, 1), (100, 5, 2)], 100)
    [10, 30, 60]
    """
    low, high = 0, max(0, room)
    while low < high:
        level = (low + high + 1) // 2
        if sum(_given(claims, level)) <= room:
            low = level
        else:
            high = level - 1
    return _given(claims, low)


def _given(claims: Sequence[SpaceClaim], level: int) -> list[int]:
    return [min(most, max(floor, level * counts)) for most, floor, counts in claims]
