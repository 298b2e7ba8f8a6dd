"""API tokens: format, generation, and hashing."""

import re
from collections.abc import Callable
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final

from waybook.core.org_codes import CODE_LENGTH, without_org

PREFIX: Final = "wb_"
ALPHABET: Final = ascii_letters + digits
#: 40 characters from an alphabet of 62 give 238 bits, too many to guess.
LENGTH: Final = 40

_TOKEN: Final = re.compile(
    f"{PREFIX}[A-Za-z0-9]{{{LENGTH}}}([A-Za-z0-9]{{{CODE_LENGTH}}})?", re.ASCII
)


def generate_token(choose: Callable[[str], str]) -> str:
    """Generate an API token. `choose` picks a random character.

    >>> generate_token(lambda letters: letters[0]) == "wb_" + 40 * "a"
    True
    """
    return PREFIX + "".join([choose(ALPHABET) for _ in range(LENGTH)])


def looks_like_token(text: str) -> bool:
    """Return whether a text has the form of an API token.

    >>> (
    ...     looks_like_token("wb_" + 40 * "a"),
    ...     looks_like_token("wb_" + 39 * "a"),
    ...     looks_like_token("wb_" + 39 * "a" + "é"),
    ...     looks_like_token("wb_" + 62 * "a"),
    ... )
    (True, False, False, True)
    """
    return _TOKEN.fullmatch(text) is not None


def hash_token(secret: str) -> bytes:
    """Return the hash under which a token's secret is stored.

    The secret may end with the code of its org, which is not hashed.
    """
    return sha256(without_org(secret).encode()).digest()
