"""API tokens as texts: how one is spelled, what can be one at all, and by what it is known."""

import re
from collections.abc import Callable
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final

PREFIX: Final = "wb_"
ALPHABET: Final = ascii_letters + digits
#: 62 letters, 40 times: 238 bits, which nobody guesses.
LENGTH: Final = 40

_TOKEN: Final = re.compile(f"{PREFIX}[A-Za-z0-9]{{{LENGTH}}}", re.ASCII)


def generate_token(choose: Callable[[str], str]) -> str:
    """A new token; `choose` picks a letter by chance.

    >>> generate_token(lambda letters: letters[0]) == "wb_" + 40 * "a"
    True
    """
    return PREFIX + "".join([choose(ALPHABET) for _ in range(LENGTH)])


def looks_like_token(text: str) -> bool:
    """Whether this could be a token of ours at all; what cannot be is not looked up.

    >>> (
    ...     looks_like_token("wb_" + 40 * "a"),
    ...     looks_like_token("wb_" + 39 * "a"),
    ...     looks_like_token("wb_" + 39 * "a" + "é"),
    ... )
    (True, False, False)
    """
    return _TOKEN.fullmatch(text) is not None


def hash_token(secret: str) -> bytes:
    """By what a secret is known here.

    It is compared by looking it up, so how long that takes tells nothing about the secret.
    """
    return sha256(secret.encode()).digest()
