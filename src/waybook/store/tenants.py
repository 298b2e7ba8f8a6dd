"""Orgs: the one of local mode, and how another comes into being."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from waybook.errors import InvalidInput
from waybook.orgs.model import Org
from waybook.record.moment import ReviewPolicy
from waybook.store.addresses import bounded_dsn
from waybook.store.sql import Statement, load

SQL = load("tenants")

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
