"""Orgs, their users, and the tokens these were given."""

from dataclasses import dataclass
from datetime import datetime

from waybook.record.changes import as_json
from waybook.record.moment import Json, ReviewPolicy
from waybook.record.scopes import Scope


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
