"""Links that work without sign-in: for the decision on a review, or to the snapshot of a plan."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from waybook.core.decision_context import Scope, expand_scopes
from waybook.store.driver.queries import Statement, load


class LinkKind(StrEnum):
    REVIEW = "review"
    SNAPSHOT = "snapshot"


class AccessLink(NamedTuple):
    """Link whose secret a reader presented."""

    org_id: UUID
    id: str
    kind: str
    plan_id: str
    review_id: str | None
    seq: int | None
    #: User for whom a review link decides, or who created a snapshot link.
    for_user: str
    #: Whether the link belongs to a user account; otherwise it was created in local mode.
    has_account: bool
    #: Current name and scopes of the account; None if it is disabled.
    user_name: str | None
    user_scopes: list[str] | None
    created_at: datetime
    expires_at: datetime
    is_expired: bool
    is_revoked: bool

    @property
    def scopes(self) -> frozenset[Scope]:
        """Return the scopes of the account; an empty set without an active account."""
        return expand_scopes(map(Scope, self.user_scopes or ()))


class NewReviewLink(NamedTuple):
    """Link for the decision on a review, to be inserted."""

    id: str
    #: Hash of the secret in the link.
    hash: bytes
    plan_id: str
    review_id: str
    for_user: str
    #: Whether the link is inserted only if the user has an active account.
    needs_account: bool
    now: datetime
    expires_at: datetime


class SnapshotLink(NamedTuple):
    """Link to the snapshot of a plan, as shown in a list."""

    id: str
    seq: int
    created_by: str
    created_at: datetime
    expires_at: datetime


SQL = load("links", link_by_hash=AccessLink, snapshot_links=SnapshotLink)


def by_link_statements() -> list[Statement]:
    """Select the link whose hash is set in the current transaction."""
    return [SQL["name_org_by_link"](), SQL["link_by_hash"]()]


def insert_review_link(link: NewReviewLink) -> Statement:
    """Insert a link with which a review can be decided in the name of a user."""
    return SQL["insert_review_link"](**link._asdict())


def insert_snapshot_link(
    link_id: str, secret_hash: bytes, *, plan_id: str, seq: int, created_by: str, days: int
) -> Statement:
    """Insert a link to the snapshot of a plan as of an audit entry."""
    return SQL["insert_snapshot_link"](
        id=link_id, hash=secret_hash, plan_id=plan_id, seq=seq, for_user=created_by, days=days
    )


def snapshot_links_statement(plan_id: str, most: int) -> Statement:
    """Select the usable links to snapshots of a plan."""
    return SQL["snapshot_links"](plan_id=plan_id, most=most)


def revoke_snapshot_link(link_id: str, plan_id: str, by: str) -> Statement:
    """Revoke a link to a snapshot of a plan."""
    return SQL["revoke_snapshot_link"](id=link_id, plan_id=plan_id, by=by)


def usable_statement(link_id: str) -> Statement:
    """Select the link with this id, if it is neither expired nor revoked."""
    return SQL["is_link_usable"](id=link_id)


def revoke_review_links(plan_id: str | None, by: str) -> Statement:
    """Revoke the review links of a plan, or of all plans of the org."""
    return SQL["revoke_review_links"](plan_id=plan_id, by=by)
