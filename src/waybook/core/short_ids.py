"""Short ids, by which replies identify plans, steps, runs, jobs and reviews.

A short id is computed from the full id, so it never changes. See decision 0059.
"""

import re
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from operator import mul
from typing import Final
from uuid import UUID

#: 0, 1, i, l and o are left out, because they are easily confused.
ALPHABET: Final = "23456789abcdefghjkmnpqrstuvwxyz"
BASE: Final = len(ALPHABET)
_DIGITS: Final = 9
LENGTH: Final = _DIGITS + 1
FULL_LENGTH: Final = 36
#: The SQL function `app_short_key` must use the same number.
KEYS: Final = BASE**_DIGITS
#: Largest PostgreSQL bigint, used as a bit mask for hashes.
_MAX_BIGINT: Final = 2**63 - 1

_FULL_ID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VALUES: Final = {digit: value for value, digit in enumerate(ALPHABET)}
_POWERS: Final = tuple(BASE**power for power in reversed(range(_DIGITS)))
_WEIGHTS: Final = range(2, _DIGITS + 2)


class IdKind(StrEnum):
    PLAN = "plan"
    STEP = "step"
    RUN = "run"
    JOB = "job"
    REVIEW = "review"


def short_key(full_id: str) -> int:
    """Return the number that a short id encodes: a hash of the full id.

    >>> short_key("00000000-0000-0000-0000-000000000000")
    6772766347248
    """
    digest = sha256(bytes.fromhex(full_id.replace("-", ""))).digest()
    return (int.from_bytes(digest[:8], "big") & _MAX_BIGINT) % KEYS


@lru_cache(maxsize=16_384)
def short_id(full_id: str) -> str:
    """Return the short id of an object with this full id (UUID).

    >>> short_id("00000000-0000-0000-0000-000000000000")
    '9y79wg3e8x'
    """
    return encode_key(short_key(full_id))


def encode_key(key: int) -> str:
    values = [key // power % BASE for power in _POWERS]
    return "".join([ALPHABET[value] for value in values]) + ALPHABET[_check_value(values)]


def parse_short_id(text: str) -> int | None:
    """Return the number that a short id encodes. None if the text is no valid short id.

    >>> parse_short_id(" 9Y79WG3E8X "), parse_short_id("9y79wg3e8y")
    (6772766347248, None)
    """
    text = text.strip()
    if len(text) != LENGTH:
        return None
    values = [_VALUES.get(character, BASE) for character in text.lower()]
    if max(values) == BASE or values.pop() != _check_value(values):
        return None
    key = 0
    for value in values:
        key = key * BASE + value
    return key


def looks_like_short_id(text: str) -> bool:
    """Return whether a text has the length and the letters of a short id, perhaps mistyped.

    >>> looks_like_short_id("9y79wg3e8y"), looks_like_short_id("9y79wg3e-y")
    (True, False)
    """
    stripped = text.strip()
    return len(stripped) == LENGTH and stripped.isascii() and stripped.isalnum()


def _check_value(values: list[int]) -> int:
    """Return the value of the check character.

    The check character detects every single wrong character and every swap of two characters.
    """
    total: int = sum(map(mul, _WEIGHTS, values))
    return -total % BASE


@lru_cache(maxsize=16_384)
def usual_form(text: str) -> str:
    """Return the short id for a full or short id in any spelling. Other texts stay unchanged.

    >>> usual_form(" 9Y79WG3E8X"), usual_form("00000000-0000-0000-0000-000000000000")
    ('9y79wg3e8x', '9y79wg3e8x')
    """
    if len(text) == FULL_LENGTH:
        if _FULL_ID.fullmatch(text):
            return short_id(text)
        try:
            return short_id(str(UUID(text)))
        except ValueError:
            return text
    return text if parse_short_id(text) is None else text.strip().lower()
