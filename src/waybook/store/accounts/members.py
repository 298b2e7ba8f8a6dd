"""Finds users who sign in through OpenID Connect, by issuer and subject."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from waybook.core.decision_context import Scope
from waybook.store.driver.queries import Statement, load


class MemberRow(NamedTuple):
    org_id: UUID
    now: datetime
    user_id: str | None
    name: str
    scopes: list[str]
    is_disabled: bool


SQL = load("accounts/members", member=MemberRow, member_of_org=MemberRow)


class Member(NamedTuple):
    user_id: str
    name: str
    scopes: tuple[Scope, ...]
    is_disabled: bool


class MemberLookup(NamedTuple):
    """Result of a user lookup, without a `member` if the org has no such user."""

    org_id: UUID
    now: datetime
    member: Member | None


def member_statements(slug: str, issuer: str, subject: str) -> list[Statement]:
    return [
        SQL["name_org_by_slug"](slug=slug),
        SQL["close_directory"](),
        SQL["member"](issuer=issuer, subject=subject),
    ]


def org_of_slug_statement(slug: str) -> Statement:
    return SQL["org_of_slug"](slug=slug)


def member_of_org_statement(issuer: str, subject: str) -> Statement:
    return SQL["member_of_org"](issuer=issuer, subject=subject)


def read_member(rows: list[MemberRow]) -> MemberLookup | None:
    if not rows:
        return None
    (row,) = rows
    if row.user_id is None:
        return MemberLookup(row.org_id, row.now, None)
    member = Member(row.user_id, row.name, tuple(map(Scope, row.scopes)), row.is_disabled)
    return MemberLookup(row.org_id, row.now, member)
