"""Who somebody is in an org, by what their sign-in calls them."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from waybook.record.scopes import Scope
from waybook.store.sql import Statement, load

SQL = load("members")


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
