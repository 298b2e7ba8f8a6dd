"""Creates and checks the ids of plans, steps, runs, jobs and reviews; see decision 0114."""

import time
from enum import StrEnum
from functools import lru_cache
from operator import mul
from secrets import randbits
from threading import Lock
from typing import Final

#: 0, 1, i, l and o are left out, because people easily confuse them.
ALPHABET: Final = "23456789abcdefghjkmnpqrstuvwxyz"
_BASE: Final = len(ALPHABET)
_DIGITS: Final = 11
LENGTH: Final = _DIGITS + 1
#: Ids that sort before and after the ids of all objects.
FIRST_ID: Final = ALPHABET[0] * LENGTH
LAST_ID: Final = ALPHABET[-1] * LENGTH

_VALUES: Final = {digit: value for value, digit in enumerate(ALPHABET)}
_POWERS: Final = tuple(_BASE**power for power in reversed(range(_DIGITS)))
_WEIGHTS: Final = range(2, _DIGITS + 2)
#: Number of random bits that follow the time in milliseconds. With 12 bits, the ids suffice until
#: the year 2166.
_BITS_PER_MILLISECOND: Final = 12
_BITS_OF_GAP: Final = 5


class IdKind(StrEnum):
    PLAN = "plan"
    STEP = "step"
    RUN = "run"
    JOB = "job"
    REVIEW = "review"
    COMMENT = "comment"


class IdSource:
    """Creates new ids, which sort by creation time.

    Each id is larger than the one before it. The gaps between ids are random, so that two processes
    rarely create the same id. If an id is taken nevertheless, the database refuses it, and the call
    runs again with new ids.
    """

    def __init__(self) -> None:
        self._last = 0
        self._lock = Lock()

    def __call__(self) -> str:
        chance = randbits(_BITS_PER_MILLISECOND)
        now = (time.time_ns() // 1_000_000 << _BITS_PER_MILLISECOND) | chance
        gap = 1 + (chance >> _BITS_PER_MILLISECOND - _BITS_OF_GAP)
        with self._lock:
            self._last = number = max(now, self._last + gap)
        return encode_id(number)


def encode_id(number: int) -> str:
    """Return the id for a number: the digits of the number, and a check character.

    >>> encode_id(0), encode_id(31**11 - 1)
    ('222222222222', 'zzzzzzzzzzzh')
    """
    values = [number // power % _BASE for power in _POWERS]
    return "".join([ALPHABET[value] for value in values]) + ALPHABET[_check_value(values)]


def is_id(text: str) -> bool:
    """Return whether a text is an id in its usual spelling.

    The check character detects every single wrong character and every swap of two characters.

    >>> is_id("kzj4t2m9xq3a"), is_id("22222222222Z")
    (False, False)
    """
    return len(text) == LENGTH and _has_id_format(text)


@lru_cache(maxsize=16_384)
def _has_id_format(text: str) -> bool:
    values = [_VALUES.get(character, _BASE) for character in text]
    return max(values) < _BASE and values.pop() == _check_value(values)


def normalize_id(text: str) -> str:
    """Return an id in its usual spelling, and any other text unchanged.

    >>> normalize_id(" ZZZZZZZZZZZH"), normalize_id("Rivers of Asia")
    ('zzzzzzzzzzzh', 'Rivers of Asia')
    """
    if is_id(text):
        return text
    usual = text.strip().lower()
    return usual if is_id(usual) else text


def is_mistyped(text: str) -> bool:
    """Return whether a text has the length of an id and only letters and digits, but is no id.

    >>> is_mistyped("22222222222z"), is_mistyped("2222-2222222")
    (True, False)
    """
    usual = text.strip()
    return len(usual) == LENGTH and usual.isascii() and usual.isalnum() and not is_id(usual.lower())


def id_or_nil(text: str) -> str:
    """Return an id in its usual spelling, or `FIRST_ID` (no object has it) if the text is no id."""
    usual = normalize_id(text)
    return usual if is_id(usual) else FIRST_ID


def _check_value(values: list[int]) -> int:
    total: int = sum(map(mul, _WEIGHTS, values))
    return -total % _BASE
