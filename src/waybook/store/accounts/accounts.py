"""Queries for orgs, users, API tokens and web sessions."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import psycopg

from waybook.accounts.model import Org, OrgListItem, TokenUse, User
from waybook.core.changes import Entity, Entry
from waybook.core.decision_context import ReviewPolicy, Scope, expand_scopes
from waybook.errors import InvalidInput, WaybookError
from waybook.json_values import Json
from waybook.store.audit import (
    GENESIS,
    ChainHead,
    Patch,
    Patches,
    WriteContext,
    audit_statements,
    sealed_entries,
)
from waybook.store.driver.addresses import bounded_dsn
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Ids, Query, Row, Statement, fill, first_value, load


class TokenIdentity(NamedTuple):
    org_id: UUID
    user: str
    token_id: str
    token_scopes: list[str]
    user_scopes: list[str]
    record_use: bool
    #: `now` is the database time of the lookup. Until `recent_until`, the token's last use is not
    #: written again.
    now: datetime
    recent_until: datetime

    @property
    def scopes(self) -> frozenset[Scope]:
        token, user = map(Scope, self.token_scopes), map(Scope, self.user_scopes)
        return expand_scopes(token) & expand_scopes(user)


class SessionUser(NamedTuple):
    org_id: UUID
    session_id: str
    token_id: str | None
    name: str
    org: str
    user_scopes: list[str]
    token_scopes: list[str] | None
    record_use: bool

    @property
    def scopes(self) -> frozenset[Scope]:
        """Return the user's scopes, limited to the token's scopes after a sign-in with a token."""
        scopes = expand_scopes(map(Scope, self.user_scopes))
        if self.token_id is None:
            return scopes
        return scopes & expand_scopes(map(Scope, self.token_scopes or ()))


_ORG_COLUMNS = (Org, "org created_at audit_seq audit_hash")
SQL = load(
    "accounts/accounts",
    bearer_of_token=TokenIdentity,
    bearer_of_token_of_org=TokenIdentity,
    lock_org=_ORG_COLUMNS,
    org=_ORG_COLUMNS,
    users=User,
    user_by_name=User,
    tokens=TokenUse,
    token=TokenUse,
    person_of_session=SessionUser,
    person_of_session_of_org=SessionUser,
    orgs=OrgListItem,
)


def by_token_statements(*, is_org_known: bool) -> list[Statement]:
    if is_org_known:
        return [SQL["name_org_by_token_of_org"](), SQL["bearer_of_token_of_org"]()]
    return [SQL["name_org_by_token"](), SQL["bearer_of_token"]()]


def check_statement(token: TokenIdentity) -> Statement:
    """Return a statement that fails with `StaleCredential` if the token has changed."""
    return SQL["check_token"](
        token_id=token.token_id,
        user=token.user,
        token_scopes=",".join(token.token_scopes),
        user_scopes=",".join(token.user_scopes),
    )


def read_org(rows: list[Row], last: Sequence[Sequence[datetime]] = ()) -> tuple[Org, ChainHead]:
    (org, _, seq, audit_hash), at = rows[0], first_value(last)
    head = ChainHead(seq, audit_hash or GENESIS, at) if seq else ChainHead()
    return _read_policy_of(org), head


def _read_policy_of(org: Org) -> Org:
    return org._replace(review_policy=ReviewPolicy(org.review_policy))


def read_users(rows: Iterable[User]) -> list[User]:
    return [row._replace(scopes=tuple(map(Scope, row.scopes))) for row in rows]


def read_tokens(rows: Iterable[TokenUse]) -> list[TokenUse]:
    scoped = ((row, tuple(map(Scope, row.token.scopes))) for row in rows)
    return [row._replace(token=row.token._replace(scopes=scopes)) for row, scopes in scoped]


def by_session_statements(*, is_org_known: bool) -> list[Statement]:
    if is_org_known:
        return [SQL["name_org_by_session_of_org"](), SQL["person_of_session_of_org"]()]
    return [SQL["name_org_by_session"](), SQL["person_of_session"]()]


def add_org(owner_dsn: str, org_id: UUID, slug: str) -> None:
    """Create an org. Only the database owner may do this."""
    try:
        with psycopg.connect(bounded_dsn(owner_dsn), prepare_threshold=None) as connection:
            connection.execute(f"set local app.org_id = '{org_id}'".encode())
            connection.execute(SQL["add_org"].text.encode(), {"org_id": org_id, "slug": slug})
    except psycopg.errors.UniqueViolation:
        raise InvalidInput(f"an org {slug} already exists", argument="slug") from None


def read_orgs(rows: Iterable[OrgListItem]) -> list[OrgListItem]:
    return [row._replace(org=_read_policy_of(row.org)) for row in rows]


def read_policy(rows: list[tuple[str]]) -> ReviewPolicy:
    return ReviewPolicy(first_value(rows))


def statements(
    org: Org, entries: tuple[Entry, ...], write_context: WriteContext
) -> list[Statement]:
    patches = Patches(change for entry in entries for change in entry.changes)
    sealed = sealed_entries(entries, ("org", org.id), write_context)
    return [
        SQL["update_org"](
            name=org.name,
            review_policy=org.review_policy,
            audit_seq=sealed[-1].seq,
            audit_hash=sealed[-1].hash,
            old_seq=write_context.head.seq,
        ),
        *_changes(patches),
        *audit_statements(sealed),
    ]


def _changes(patches: Patches) -> Iterator[Statement]:
    for entity, insert in ((Entity.USER, SQL["insert_user"]), (Entity.TOKEN, SQL["insert_token"])):
        for patch in patches.inserts[entity]:
            yield _filled(insert, patch)
    for patch in patches.updates[Entity.USER]:
        if "disabled_at" in patch.values:
            yield _filled(SQL["enable_user"], patch)
        if "scopes" in patch.values:
            yield _filled(SQL["set_user_scopes"], patch)
    for patch in patches.updates[Entity.TOKEN]:
        yield _filled(SQL["revoke_token"], patch)


def _filled(query: Query, patch: Patch) -> Statement:
    values: dict[str, Json] = {
        name: f"{{{','.join(map(str, value))}}}" if isinstance(value, list) else value
        for name, value in patch.values.items()
    }
    return fill(query, values, id=patch.id)


log = logging.getLogger(__name__)

#: Maximum number of token uses that wait to be written. If it is reached, new uses are dropped.
_MAX_QUEUED: Final = 10_000


class LastUsed:
    def __init__(self) -> None:
        self._waiting: dict[tuple[UUID, str], None] = {}
        self._some = asyncio.Event()

    def record(self, org_id: UUID, token_id: str) -> None:
        """Note that a token was used; `flush` writes it later. Do nothing if the queue is full."""
        if len(self._waiting) < _MAX_QUEUED:
            self._waiting[org_id, token_id] = None
            self._some.set()

    async def wait_pending(self) -> None:
        await self._some.wait()

    async def flush(self, database: Database) -> None:
        waiting, self._waiting = self._waiting, {}
        self._some.clear()
        by_org: dict[UUID, list[str]] = defaultdict(list)
        for org_id, token_id in waiting:
            by_org[org_id].append(token_id)
        for org_id, token_ids in by_org.items():
            try:
                async with database.org_transaction(org_id) as tx:
                    await tx.commit(SQL["tokens_used"](ids=Ids(token_ids)))
            except WaybookError as error:
                log.warning("the use of %d tokens was not noted: %s", len(token_ids), error)
