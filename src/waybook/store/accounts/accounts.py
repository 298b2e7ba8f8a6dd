"""Queries for orgs, users, API tokens and web sessions.

Tokens and sessions are looked up by the hash of their secret, before the org is known. Users who
sign in through an issuer are looked up by issuer and subject.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from waybook.accounts.model import Org, Token, User
from waybook.core.decision_context import ReviewPolicy, Scope, expand_scopes
from waybook.core.replay import Row, Rows
from waybook.errors import InvalidInput
from waybook.store.audit import ChainHead
from waybook.store.driver.addresses import bounded_dsn
from waybook.store.driver.queries import Ids, Statement, load

SQL = load("accounts/accounts")


class TokenIdentity(NamedTuple):
    """Identity of a caller that presented a valid token."""

    org_id: UUID
    user: str
    token_id: str
    #: Scopes that both the token and its user have.
    scopes: frozenset[Scope]
    #: Whether the recorded last use is old enough to be updated.
    record_use: bool


class LoadedOrg(NamedTuple):
    """An org and the head of its audit chain."""

    org: Org
    head: ChainHead


class TokenUse(NamedTuple):
    """A token, its user, and its last use to the minute."""

    token: Token
    user: str
    last_used_at: datetime | None


def by_token_statements() -> list[Statement]:
    """Look up the token by the secret hash set in the transaction."""
    return [SQL["name_org_by_token"](), SQL["bearer_of_token"]()]


def read_bearer(rows: list[tuple[Any, ...]]) -> TokenIdentity | None:
    """Return the identity that `by_token_statements` found, or None if the token is not valid."""
    if not rows:
        return None
    org_id, user, token_id, scopes, users, to_note = rows[0]
    both = expand_scopes(map(Scope, scopes)) & expand_scopes(map(Scope, users))
    return TokenIdentity(org_id, user, token_id, both, to_note)


def used_statement(token_ids: Iterable[str]) -> Statement:
    """Record that these tokens were used."""
    return SQL["tokens_used"](ids=Ids(token_ids))


def read_org(rows: list[tuple[Any, ...]], last: Sequence[tuple[Any, ...]] = ()) -> LoadedOrg:
    """Return the org that `org` or `lock_org` found; `last` has the last audit entry's time."""
    org_id, slug, name, policy, seq, seal = rows[0]
    org = Org(id=org_id, slug=slug, name=name, review_policy=ReviewPolicy(policy))
    at = last[0][0].astimezone(UTC) if last else None
    return LoadedOrg(org, ChainHead(seq, bytes(seal), at) if seq else ChainHead())


def user_statement(name: str) -> Statement:
    """Select the user with this name."""
    return SQL["user_by_name"](name=name)


def read_users(rows: Iterable[tuple[Any, ...]]) -> list[User]:
    """Return the selected users."""
    return [_user(row) for row in rows]


def _user(row: tuple[Any, ...]) -> User:
    user_id, name, scopes, created_at, created_by, email, issuer, subject, disabled_at = row
    return User(
        id=user_id,
        name=name,
        scopes=tuple(map(Scope, scopes)),
        created_at=created_at.astimezone(UTC),
        created_by=created_by,
        email=email,
        issuer=issuer,
        subject=subject,
        disabled_at=_in_utc(disabled_at),
    )


def read_tokens(rows: Iterable[tuple[Any, ...]]) -> list[TokenUse]:
    """Return the selected tokens."""
    return [TokenUse(_token(row[:-2]), row[-1], _in_utc(row[-2])) for row in rows]


def _token(row: tuple[Any, ...]) -> Token:
    token_id, user_id, label, digest, scopes, created_at, created_by, *rest = row
    expires_at, revoked_at, revoked_by = rest
    return Token(
        id=token_id,
        user_id=user_id,
        label=label,
        hash=digest,
        scopes=tuple(map(Scope, scopes)),
        created_at=created_at.astimezone(UTC),
        created_by=created_by,
        expires_at=_in_utc(expires_at),
        revoked_at=_in_utc(revoked_at),
        revoked_by=revoked_by,
    )


def rows_statement(org_id: str) -> Statement:
    """Select every row that the audit of an org accounts for."""
    return SQL["stored_org"](org_id=org_id)


def read_rows(rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Return the selected rows in the form that a replay produces."""
    by_entity: Rows = {}
    for entity, row_id, row in rows:
        by_entity.setdefault(entity, {})[row_id] = _in_utc_row(row)
    return by_entity


def _in_utc_row(row: Row) -> Row:
    return {
        name: datetime.fromisoformat(value).astimezone(UTC).isoformat()
        if name.endswith("_at") and isinstance(value, str)
        else value
        for name, value in row.items()
    }


def _in_utc(at: datetime | None) -> datetime | None:
    return at and at.astimezone(UTC)


class Member(NamedTuple):
    """A user of the requested org."""

    user_id: str
    name: str
    #: Upper bound of the scopes of any credential of this user.
    scopes: tuple[Scope, ...]
    is_disabled: bool


class MemberLookup(NamedTuple):
    """An org, its current time, and the user with this sign-in, if it has one."""

    org_id: UUID
    now: datetime
    member: Member | None


def member_statements(slug: str, issuer: str, subject: str) -> list[Statement]:
    """Look up the org by slug, then its user by issuer and subject."""
    return [
        SQL["name_org_by_slug"](slug=slug),
        SQL["close_directory"](),
        SQL["member"](issuer=issuer, subject=subject),
    ]


def read_member(rows: list[tuple[Any, ...]]) -> MemberLookup | None:
    """Return what `member_statements` found, or None if there is no such org."""
    if not rows:
        return None
    org_id, now, user_id, name, scopes, is_disabled = rows[0]
    if user_id is None:
        return MemberLookup(org_id, now, None)
    return MemberLookup(org_id, now, Member(user_id, name, tuple(map(Scope, scopes)), is_disabled))


class SessionUser(NamedTuple):
    """Identity of a user with a signed-in browser."""

    org_id: UUID
    session_id: str
    #: Token used to sign in, if any.
    token_id: str | None
    name: str
    #: Name of the org.
    org: str
    #: Scopes that the user has, and the token too if one was used to sign in.
    scopes: frozenset[Scope]
    #: Whether the recorded last activity is old enough to be updated.
    record_use: bool


def by_session_statements() -> list[Statement]:
    """Look up the web session by the secret hash set in the transaction."""
    return [SQL["name_org_by_session"](), SQL["person_of_session"]()]


def read_person(rows: list[tuple[Any, ...]]) -> SessionUser | None:
    """Return the user that `by_session_statements` found, or None if the session is invalid."""
    if not rows:
        return None
    org_id, session_id, token_id, name, org, users, tokens, to_note = rows[0]
    scopes = expand_scopes(map(Scope, users))
    if token_id is not None:
        scopes &= expand_scopes(map(Scope, tokens))
    return SessionUser(org_id, session_id, token_id, name, org, scopes, to_note)


def start_statement(session_id: str, secret_hash: bytes, user_id: str) -> Statement:
    """Start a web session for a user."""
    return SQL["insert_session"](id=session_id, user_id=user_id, hash=secret_hash)


def start_by_token_statement(session_id: str, secret_hash: bytes, token_id: str) -> Statement:
    """Start a web session for the user of a token."""
    return SQL["insert_session_by_token"](id=session_id, hash=secret_hash, token_id=token_id)


def seen_statement(session_id: str) -> Statement:
    """Record activity of a web session."""
    return SQL["session_seen"](id=session_id)


def end_statement(session_id: str) -> Statement:
    """End a web session."""
    return SQL["end_session"](id=session_id)


#: Org that owns all data in local mode.
LOCAL_ORG = UUID("00000000-0000-7000-8000-000000000001")


class OrgListItem(NamedTuple):
    """An org as listed in the directory."""

    org: Org
    created_at: datetime


def add_org(owner_dsn: str, org_id: UUID, slug: str) -> None:
    """Create an org. Only the owner of the database has the privilege.

    Raises:
        InvalidInput: an org with this slug exists.
    """
    try:
        with psycopg.connect(bounded_dsn(owner_dsn), prepare_threshold=None) as connection:
            connection.execute(f"set local app.org_id = '{org_id}'".encode())
            connection.execute(SQL["add_org"].text.encode(), {"org_id": org_id, "slug": slug})
    except psycopg.errors.UniqueViolation:
        raise InvalidInput(f"there is an org {slug} already", argument="slug") from None


def orgs_statement() -> Statement:
    """Select the directory of orgs."""
    return SQL["orgs"]()


def read_orgs(rows: Iterable[tuple[Any, ...]]) -> list[OrgListItem]:
    """Return the selected orgs."""
    return [
        OrgListItem(
            Org(id=org_id, slug=slug, name=name, review_policy=ReviewPolicy(policy)),
            created_at.astimezone(UTC),
        )
        for org_id, slug, name, policy, created_at in rows
    ]


def policy_statement() -> Statement:
    """Select the org's review policy: the credentials whose review decisions are accepted."""
    return SQL["review_policy"]()


def set_policy_statement(policy: ReviewPolicy) -> Statement:
    """Set the org's review policy."""
    return SQL["set_review_policy"](policy=str(policy))


def read_policy(rows: list[tuple[Any, ...]]) -> ReviewPolicy:
    """Return the policy that `policy_statement` selected."""
    return ReviewPolicy(rows[0][0])
