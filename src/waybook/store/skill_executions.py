"""Queries for skill executions."""

from datetime import datetime
from typing import NamedTuple

from waybook.core.decision_context import Holder
from waybook.store.driver.queries import Statement, first_value, load


class SkillExecutionRow(NamedTuple):
    id: str
    skill: str
    status: str
    session: str | None
    audit_seq: int
    audit_hash: bytes
    started_at: datetime


SQL = load("skill_executions", lock_execution=SkillExecutionRow)


def latest_statement(holder: Holder) -> Statement:
    return SQL["latest"](user=holder.user, session=holder.session)


def read_latest(rows: list[tuple[str]]) -> str | None:
    execution_id: str | None = first_value(rows)
    return execution_id
