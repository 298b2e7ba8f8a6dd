"""Who comes in by which secret, and the users and tokens of an org as they are stored."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from waybook.orgs.model import Org, Token, User
from waybook.record.moment import ReviewPolicy
from waybook.record.replay import Row, Rows
from waybook.record.scopes import Scope, expand_scopes
from waybook.store.audit import ChainHead
from waybook.store.sql import Ids, Statement, load

SQL = load("identities")


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
