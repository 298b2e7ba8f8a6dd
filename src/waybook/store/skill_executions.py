"""Uses of skills: which one a session started last, and how one ends."""

from typing import Any

from waybook.store.sql import Statement, load

SQL = load("skill_executions")


def latest_statement(session: str | None) -> Statement:
    """Find the skill execution a new plan of this session belongs to."""
    return SQL["latest"](session=session)


def latest(rows: list[tuple[Any, ...]]) -> str | None:
    """The id `latest` found, if any."""
    return rows[0][0] if rows else None
