"""Appends the code of an org to a secret, so that a Citus cluster finds the secret on one node.

Without the code, the cluster would have to search every node. The code is not part of the secret's
hash and grants no access.
"""

from string import ascii_letters, digits
from typing import Final
from uuid import UUID

SECRET_LENGTH: Final = 43
CODE_LENGTH: Final = 22
_ROUTED_LENGTH: Final = SECRET_LENGTH + CODE_LENGTH
_ALPHABET: Final = ascii_letters + digits
_VALUES: Final = {character: value for value, character in enumerate(_ALPHABET)}
_MAX_ID: Final = 2**128


def with_org(secret: str, org_id: UUID) -> str:
    """Append the code of an org to a secret.

    >>> with_org("s" * 43, UUID(int=63))[43:]
    'aaaaaaaaaaaaaaaaaaaabb'
    """
    code, rest = "", org_id.int
    for _ in range(CODE_LENGTH):
        rest, digit = divmod(rest, len(_ALPHABET))
        code = _ALPHABET[digit] + code
    return secret + code


def org_in(secret: str) -> UUID | None:
    """Return the org whose code is at the end of a secret, or None if there is no valid code.

    >>> org = UUID("01234567-89ab-7def-8123-456789abcdef")
    >>> org_in(with_org("s" * 43, org)) == org, org_in("s" * 43), org_in("9" * 65)
    (True, None, None)
    """
    code = secret[SECRET_LENGTH:]
    if len(secret) != _ROUTED_LENGTH or not _VALUES.keys() >= set(code):
        return None
    number = 0
    for character in code:
        number = number * len(_ALPHABET) + _VALUES[character]
    return UUID(int=number) if number < _MAX_ID else None


def without_org(secret: str) -> str:
    """Return a secret without the code of its org, if it has one.

    >>> without_org(with_org("s" * 43, UUID(int=1))) == without_org("s" * 43) == "s" * 43
    True
    """
    return secret[:SECRET_LENGTH] if len(secret) == _ROUTED_LENGTH else secret
