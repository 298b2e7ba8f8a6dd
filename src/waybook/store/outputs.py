"""Reading outputs: those of a plan without their texts, or one with its text."""

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from waybook.plan.limits import MAX_OUTPUTS
from waybook.plan.output import Output
from waybook.store.sql import Statement, load

SQL = load("outputs")


def outputs_statement(plan_id: str) -> Statement:
    """The outputs of a plan, with all their versions."""
    return SQL["outputs"](plan_id=plan_id, most=MAX_OUTPUTS)


def output_statement(output_id: str) -> Statement:
    """One output, with its text."""
    return SQL["output"](id=output_id)


def latest_statement(before: tuple[str, str], most: int) -> Statement:
    """The latest version of each output of the org, behind the one with this time and id."""
    return SQL["latest_outputs"](at=before[0], id=before[1], most=most)


def read_outputs(rows: Iterable[tuple[Any, ...]]) -> list[Output]:
    """The outputs these statements found."""
    return [
        Output(
            id=row[0],
            title=row[1],
            media_type=row[2],
            version=row[3],
            content_hash=row[4],
            created_at=row[5].astimezone(UTC),
            created_by=row[6],
        )
        for row in rows
    ]
