"""Who comes in by which secret, and the users and tokens of an org as they are stored.

Who somebody is in an org, by what their sign-in calls them.

Browsers that signed in, each known by the hash of a secret that only it has.

Orgs: the one of local mode, and how another comes into being.
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
    """Whoever showed a token that counts."""

    org_id: UUID
    user: str
    token_id: str
    #: What both the token and its user may do.
    scopes: frozenset[Scope]
    #: Whether it was last seen so long ago that it should be noted.
    record_use: bool


class LoadedOrg(NamedTuple):
    """An org, and the end of its chain."""

    org: Org
    head: ChainHead


class TokenUse(NamedTuple):
    """A token, whose it is, and when it was last used, to the minute."""

    token: Token
    user: str
    last_used_at: datetime | None


def by_token_statements() -> list[Statement]:
    """Ask whose token was shown; for a message that bears a secret."""
    return [SQL["name_org_by_token"](), SQL["bearer_of_token"]()]


def read_bearer(rows: list[tuple[Any, ...]]) -> TokenIdentity | None:
    """The bearer these statements found, if the token counts."""
    if not rows:
        return None
    org_id, user, token_id, scopes, users, to_note = rows[0]
    both = expand_scopes(map(Scope, scopes)) & expand_scopes(map(Scope, users))
    return TokenIdentity(org_id, user, token_id, both, to_note)


def used_statement(token_ids: Iterable[str]) -> Statement:
    """Note that these tokens were used."""
    return SQL["tokens_used"](ids=Ids(token_ids))


def read_org(rows: list[tuple[Any, ...]], last: Sequence[tuple[Any, ...]] = ()) -> LoadedOrg:
    """Return the org that `org` or `lock_org` found; `last` is when its chain was written."""
    org_id, slug, name, policy, seq, seal = rows[0]
    org = Org(id=org_id, slug=slug, name=name, review_policy=ReviewPolicy(policy))
    at = last[0][0].astimezone(UTC) if last else None
    return LoadedOrg(org, ChainHead(seq, bytes(seal), at) if seq else ChainHead())


def user_statement(name: str) -> Statement:
    """Ask for the user of this name."""
    return SQL["user_by_name"](name=name)


def read_users(rows: Iterable[tuple[Any, ...]]) -> list[User]:
    """The users that were found."""
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
    """The tokens that were found."""
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
    """Everything the audit of an org accounts for."""
    return SQL["stored_org"](org_id=org_id)


def read_rows(rows: Iterable[tuple[Any, ...]]) -> Rows:
    """The same in the shape a replay has."""
    found: Rows = {}
    for entity, row_id, row in rows:
        found.setdefault(entity, {})[row_id] = _in_utc_row(row)
    return found


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
    """A user of the org that was asked for."""

    user_id: str
    name: str
    #: The most any credential of theirs can do.
    scopes: tuple[Scope, ...]
    is_disabled: bool


class MemberLookup(NamedTuple):
    """An org, the time there, and its user, if it has one by this sign-in."""

    org_id: UUID
    now: datetime
    member: Member | None


def member_statements(slug: str, issuer: str, subject: str) -> list[Statement]:
    """Ask who this is in the org of this slug; for a message that finds an org."""
    return [
        SQL["name_org_by_slug"](slug=slug),
        SQL["close_directory"](),
        SQL["member"](issuer=issuer, subject=subject),
    ]


def read_member(rows: list[tuple[Any, ...]]) -> MemberLookup | None:
    """What these statements found; nothing if there is no such org."""
    if not rows:
        return None
    org_id, now, user_id, name, scopes, is_disabled = rows[0]
    if user_id is None:
        return MemberLookup(org_id, now, None)
    return MemberLookup(org_id, now, Member(user_id, name, tuple(map(Scope, scopes)), is_disabled))


class SessionUser(NamedTuple):
    """Whoever sits at a browser that signed in."""

    org_id: UUID
    session_id: str
    #: The token they signed in with, if it was one.
    token_id: str | None
    name: str
    #: What the org is called.
    org: str
    #: What both the user and the token may do.
    scopes: frozenset[Scope]
    #: Whether they were last seen so long ago that it should be noted.
    record_use: bool


def by_session_statements() -> list[Statement]:
    """Ask whose session this is; for a message that bears a secret."""
    return [SQL["name_org_by_session"](), SQL["person_of_session"]()]


def read_person(rows: list[tuple[Any, ...]]) -> SessionUser | None:
    """The person these statements found, if the session counts."""
    if not rows:
        return None
    org_id, session_id, token_id, name, org, users, tokens, to_note = rows[0]
    scopes = expand_scopes(map(Scope, users))
    if token_id is not None:
        scopes &= expand_scopes(map(Scope, tokens))
    return SessionUser(org_id, session_id, token_id, name, org, scopes, to_note)


def start_statement(session_id: str, secret_hash: bytes, user_id: str) -> Statement:
    """Let a person's browser in."""
    return SQL["insert_session"](id=session_id, user_id=user_id, hash=secret_hash)


def start_by_token_statement(session_id: str, secret_hash: bytes, token_id: str) -> Statement:
    """Let the browser of whoever showed a token in."""
    return SQL["insert_session_by_token"](id=session_id, hash=secret_hash, token_id=token_id)


def seen_statement(session_id: str) -> Statement:
    """Note that somebody was there."""
    return SQL["session_seen"](id=session_id)


def end_statement(session_id: str) -> Statement:
    """Let it count no more."""
    return SQL["end_session"](id=session_id)


#: The org everything belongs to in local mode.
LOCAL_ORG = UUID("00000000-0000-7000-8000-000000000001")


class OrgListItem(NamedTuple):
    """An org as the directory has it."""

    org: Org
    created_at: datetime


def add_org(owner_dsn: str, org_id: UUID, slug: str) -> None:
    """Make an org. Only the owner of the database can.

    Raises:
        InvalidInput: there is one of this slug.
    """
    try:
        with psycopg.connect(bounded_dsn(owner_dsn), prepare_threshold=None) as connection:
            connection.execute(f"set local app.org_id = '{org_id}'".encode())
            connection.execute(SQL["add_org"].text.encode(), {"org_id": org_id, "slug": slug})
    except psycopg.errors.UniqueViolation:
        raise InvalidInput(f"there is an org {slug} already", argument="slug") from None


def orgs_statement() -> Statement:
    """Ask for the directory of orgs."""
    return SQL["orgs"]()


def read_orgs(rows: Iterable[tuple[Any, ...]]) -> list[OrgListItem]:
    """The orgs that were found."""
    return [
        OrgListItem(
            Org(id=org_id, slug=slug, name=name, review_policy=ReviewPolicy(policy)),
            created_at.astimezone(UTC),
        )
        for org_id, slug, name, policy, created_at in rows
    ]


def policy_statement() -> Statement:
    """Ask whose word counts as a person's decision in this org."""
    return SQL["review_policy"]()


def set_policy_statement(policy: ReviewPolicy) -> Statement:
    """Have it so from now on."""
    return SQL["set_review_policy"](policy=str(policy))


def read_policy(rows: list[tuple[Any, ...]]) -> ReviewPolicy:
    """The policy that `policy_statement` found."""
    return ReviewPolicy(rows[0][0])
