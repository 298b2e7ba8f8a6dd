"""Rules that change an org, its users and its tokens. Each rule returns an audit entry."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from waybook.accounts.model import Org, Token, User, row_of, validate_name, validate_user_name
from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json
from waybook.core.decision_context import DecisionContext, ReviewPolicy, Scope, expand_scopes
from waybook.errors import Forbidden, InvalidInput, InvalidTransition
from waybook.json_values import Json

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
