"""Defines orgs, users and API tokens, validates their names, and generates token secrets."""

import re
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final, NamedTuple
from uuid import UUID

from waybook.core.changes import as_json
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.core.org_codes import CODE_LENGTH, without_org
from waybook.errors import InvalidInput
from waybook.json_values import Json

#: Id of the org that owns all data in local mode.
LOCAL_ORG: Final = UUID("00000000-0000-7000-8000-000000000001")


class Org(NamedTuple):
    id: str
    slug: str
    name: str | None = None
    review_policy: ReviewPolicy = ReviewPolicy.RELAYED


class User(NamedTuple):
    id: str
    #: Name under which the audit records the user's actions.
    name: str
    #: Scopes of the user. A token or sign-in of the user can have fewer scopes, but no others.
    scopes: tuple[Scope, ...]
    created_at: datetime
    created_by: str
    email: str | None = None
    issuer: str | None = None
    subject: str | None = None
    disabled_at: datetime | None = None


class Token(NamedTuple):
    id: str
    user_id: str
    label: str
    #: SHA-256 hash of the secret. The secret itself is not stored.
    hash: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


class OrgListItem(NamedTuple):
    org: Org
    created_at: datetime


class TokenUse(NamedTuple):
    """An API token with the time of its last use and the name of its user."""

    token: Token
    last_used_at: datetime | None
    user: str


def row_of(entity: Org | User | Token) -> dict[str, Json]:
    return {name: as_json(value) for name, value in entity._asdict().items() if name != "id"}


MAX_NAME_LENGTH: Final = 200
#: Names that no user can have: the audit records Waybook's own changes under these names.
_RESERVED_NAMES: Final = frozenset({"waybook", "waybook (built in)", "sign-in"})
_SLUG: Final = re.compile("[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def validate_slug(slug: str) -> str:
    """Return the slug if it is valid.

    >>> validate_slug("acme-2")
    'acme-2'
    """
    if _SLUG.fullmatch(slug) is None:
        raise InvalidInput(
            "a slug must have 1 to 63 lower-case letters, digits and hyphens, and must not begin "
            "or end with a hyphen",
            argument="slug",
        )
    return slug


def validate_user_name(name: str) -> str:
    """Return the user name if it is valid and not reserved for Waybook.

    >>> validate_user_name(" Ann ")
    'Ann'
    """
    valid_name = validate_name(name, argument="name")
    if " ".join(valid_name.casefold().split()) in _RESERVED_NAMES:
        raise InvalidInput(
            f"{valid_name} is reserved for Waybook; choose another name", argument="name"
        )
    return valid_name


def validate_name(name: str, *, argument: str) -> str:
    """Return the name without surrounding whitespace, if it is one printable line.

    >>> validate_name(" Ann ", argument="name")
    'Ann'
    """
    stripped = name.strip()
    if not stripped or len(stripped) > MAX_NAME_LENGTH or not stripped.isprintable():
        raise InvalidInput(
            f"{argument} must be one line of 1 to {MAX_NAME_LENGTH} characters that can be printed",
            argument=argument,
        )
    return stripped


PREFIX: Final = "wb_"
ALPHABET: Final = ascii_letters + digits
#: Number of random characters. 40 characters from an alphabet of 62 have 238 bits, too many to
#: guess.
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

    If the secret ends with a code that names its org, this code is not hashed.
    """
    return sha256(without_org(secret).encode()).digest()
