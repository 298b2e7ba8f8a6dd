"""Orgs, their users, and the tokens these were given.

What orgs, users and tokens may be called.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from waybook.core.changes import as_json
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.errors import InvalidInput
from waybook.json_values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Org:
    id: str
    slug: str
    name: str | None = None
    review_policy: ReviewPolicy = ReviewPolicy.RELAYED


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: str
    #: What the audit calls them.
    name: str
    #: The most any credential of theirs can do.
    scopes: tuple[Scope, ...]
    created_at: datetime
    created_by: str
    email: str | None = None
    #: What their sign-in calls them, if they have one.
    issuer: str | None = None
    subject: str | None = None
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    id: str
    user_id: str
    label: str
    #: The SHA-256 of the secret, in hexadecimal; the secret itself is kept nowhere.
    hash: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


def row_of(one: Org | User | Token) -> dict[str, Json]:
    """Every field of it but its id, as the audit tells it."""
    return {name: as_json(getattr(one, name)) for name in type(one).__slots__ if name != "id"}


MAX_NAME_LENGTH: Final = 200
#: What the audit and the pages call ourselves: the background, our definitions, the door.
RESERVED_NAMES: Final = frozenset({"waybook", "waybook (built in)", "sign-in"})
_SLUG: Final = re.compile("[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def validate_slug(slug: str) -> str:
    """The slug, if it can be one.

    >>> validate_slug("acme-2")
    'acme-2'

    Raises:
        InvalidInput: it cannot.
    """
    if _SLUG.fullmatch(slug) is None:
        raise InvalidInput(
            "a slug has small letters, digits and dashes, at most 63, and no dash at its ends",
            argument="slug",
        )
    return slug


def validate_user_name(name: str) -> str:
    """The name, if somebody can be called so: not as we are, for what they do would look like ours.

    >>> validate_user_name(" Ann ")
    'Ann'

    Raises:
        InvalidInput: nobody can.
    """
    told = validate_name(name, argument="name")
    if " ".join(told.casefold().split()) in RESERVED_NAMES:
        raise InvalidInput(
            f"{told} is what Waybook calls itself; a user needs another name", argument="name"
        )
    return told


def validate_name(name: str, *, argument: str) -> str:
    """The name without blanks around it, if it can be one: a line that people can read.

    >>> validate_name(" Ann ", argument="name")
    'Ann'

    Raises:
        InvalidInput: it cannot.
    """
    told = name.strip()
    if not told or len(told) > MAX_NAME_LENGTH or not told.isprintable():
        raise InvalidInput(
            f"{argument} must be one line of 1 to {MAX_NAME_LENGTH} characters that can be printed",
            argument=argument,
        )
    return told
