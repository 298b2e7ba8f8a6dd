"""Links that let a person decide a review, give feedback or read a plan without signing in."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from waybook.core.decision_context import Scope, expand_scopes
from waybook.json_values import Json
from waybook.store.driver.queries import Statement, Value, fill, load


class LinkKind(StrEnum):
    REVIEW = "review"
    FEEDBACK = "feedback"
    SNAPSHOT = "snapshot"


class AccessLink(NamedTuple):
    org_id: UUID
    id: str
    kind: str
    plan_id: str | None
    review_id: str | None
    run_id: str | None
    stage: str | None
    seq: int | None
    for_user: str
    has_account: bool
    user_name: str | None
    user_scopes: list[str] | None
    created_at: datetime
    expires_at: datetime
    is_expired: bool
    is_revoked: bool

    @property
    def scopes(self) -> frozenset[Scope]:
        return expand_scopes(map(Scope, self.user_scopes or ()))


SQL = load("links", link_by_hash=AccessLink, link_by_hash_of_org=AccessLink)


def by_link_statements(*, is_org_known: bool) -> list[Statement]:
    if is_org_known:
        return [SQL["name_org_by_link_of_org"](), SQL["link_by_hash_of_org"]()]
    return [SQL["name_org_by_link"](), SQL["link_by_hash"]()]


def insert_action_link(
    target: Mapping[str, Json], *, needs_account: bool, **values: Value
) -> list[Statement]:
    """Insert an action link, with which a user can decide a review or give feedback.

    `target` has the kind of the link and what it is for: a plan's review, or a run's stage.
    """
    statements = [fill(SQL["insert_action_link"], target, **values)]
    if not needs_account:
        statements.append(fill(SQL["insert_link_without_account"], target, **values))
    return statements
