"""Defines orgs, users and API tokens, validates their names, and generates token secrets."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final, NamedTuple
from uuid import UUID

from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json
from waybook.core.decision_context import DecisionContext, ReviewPolicy, Scope, expand_scopes
from waybook.core.org_codes import CODE_LENGTH, without_org
from waybook.errors import Forbidden, InvalidInput, InvalidTransition
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


KINDS = {Org: Entity.ORG, User: Entity.USER, Token: Entity.TOKEN}


class NewUser(NamedTuple):
    name: str
    scopes: tuple[Scope, ...]
    email: str | None = None
    issuer: str | None = None
    subject: str | None = None


def record_org(org: Org, context: DecisionContext) -> Entry:
    return _entry("org_recorded", context, _made(org), slug=org.slug)


def change_org(
    org: Org,
    context: DecisionContext,
    *,
    name: str | None = None,
    policy: ReviewPolicy | None = None,
) -> tuple[Org, Entry | None]:
    """Change the name or review policy of an org. If nothing changes, there is no audit entry."""
    changed = org._replace(
        name=org.name if name is None else validate_name(name, argument="name"),
        review_policy=policy or org.review_policy,
    )
    if changed == org:
        return org, None
    return changed, _entry("org_changed", context, _changed(org, changed))


def add_user(new: NewUser, context: DecisionContext) -> tuple[User, Entry]:
    user = User(
        id=context.new_uuid(),
        name=validate_user_name(new.name),
        scopes=_sound_scopes(new.scopes),
        email=None if new.email is None else validate_name(new.email, argument="email"),
        issuer=new.issuer,
        subject=new.subject,
        created_at=context.now,
        created_by=context.actor.user,
    )
    return user, _entry("user_added", context, _made(user), user=user.name)


def disable_user(user: User, context: DecisionContext) -> tuple[User, Entry]:
    if user.disabled_at is not None:
        raise InvalidTransition(f"{user.name} is already disabled", old="disabled", new="disabled")
    changed = user._replace(disabled_at=context.now)
    return changed, _entry("user_disabled", context, _changed(user, changed), user=user.name)


def enable_user(user: User, context: DecisionContext) -> tuple[User, Entry]:
    if user.disabled_at is None:
        raise InvalidTransition(f"{user.name} is not disabled", old="enabled", new="enabled")
    changed = user._replace(disabled_at=None)
    return changed, _entry("user_enabled", context, _changed(user, changed), user=user.name)


def change_scopes(
    user: User, scopes: tuple[Scope, ...], context: DecisionContext
) -> tuple[User, Entry | None]:
    """Set the scopes of a user. If they stay the same, there is no audit entry."""
    changed = user._replace(scopes=_sound_scopes(scopes))
    if changed == user:
        return user, None
    fields: dict[str, Json] = {"user": user.name, "scopes": [*changed.scopes]}
    return changed, _entry("user_scopes_changed", context, _changed(user, changed), **fields)


def add_token(
    user: User,
    context: DecisionContext,
    *,
    label: str,
    secret_hash: str,
    scopes: Iterable[Scope],
    expires_at: datetime | None,
) -> tuple[Token, Entry]:
    """Create an API token for a user."""
    if user.disabled_at is not None:
        raise InvalidTransition(
            f"{user.name} is disabled; enable the user first", old="disabled", new=""
        )
    sound = _sound_scopes(scopes)
    if beyond := sorted(expand_scopes(sound) - expand_scopes(user.scopes)):
        raise Forbidden(
            f"the token has scopes that {user.name} lacks: {', '.join(beyond)}", beyond=beyond
        )
    if expires_at is not None and expires_at <= context.now:
        raise InvalidInput("a token must expire in the future", argument="expires")
    token = Token(
        id=context.new_uuid(),
        user_id=user.id,
        label=validate_name(label, argument="label"),
        hash=secret_hash,
        scopes=sound,
        created_at=context.now,
        created_by=context.actor.user,
        expires_at=expires_at,
    )
    fields = {"user": user.name, "tokenId": token.id}
    return token, _entry("token_added", context, _made(token), **fields)


def revoke_token(token: Token, context: DecisionContext) -> tuple[Token, Entry]:
    if token.revoked_at is not None:
        raise InvalidTransition("this token is already revoked", old="revoked", new="revoked")
    changed = token._replace(revoked_at=context.now, revoked_by=context.actor.user)
    return changed, _entry("token_revoked", context, _changed(token, changed), tokenId=token.id)


def _sound_scopes(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    chosen = set(scopes)
    if not chosen:
        raise InvalidInput("name at least one scope", argument="scopes")
    return tuple(scope for scope in Scope if scope in chosen)


def _made(entity: Org | User | Token) -> tuple[Change, ...]:
    return (Change(KINDS[type(entity)], entity.id, WHOLE_ROW, None, row_of(entity)),)


def _changed(old: Org | User | Token, new: Org | User | Token) -> tuple[Change, ...]:
    kind = KINDS[type(old)]
    return tuple(
        Change(kind, old.id, name, as_json(getattr(old, name)), as_json(getattr(new, name)))
        for name in old._fields
        if getattr(old, name) != getattr(new, name)
    )


def _entry(
    action: str, context: DecisionContext, changes: tuple[Change, ...], **fields: Json
) -> Entry:
    details: dict[str, Json] = {"action": action, **fields, "doneAs": context.actor.principal}
    return Entry(Event.PLAN_MODIFIED, details, changes)
