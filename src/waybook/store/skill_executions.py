"""Queries for skill executions."""

from typing import Any

from waybook.core.holder import Holder
from waybook.store.driver.queries import Statement, load

SQL = load("skill_executions")


def latest_statement(holder: Holder) -> Statement:
    """Find the skill execution that a new plan of this conversation belongs to."""
    return SQL["latest"](user=holder.user, session=holder.session)


def read_latest(rows: list[tuple[Any, ...]]) -> str | None:
    """Return the id that `latest_statement` selected, if any."""
    return rows[0][0] if rows else None
