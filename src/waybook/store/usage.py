"""What work took: of an org, by model, by plan and run; of a plan, by step."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from waybook.record.usage import Totals, Usage
from waybook.store.sql import Statement, load

SQL = load("usage")

#: How many columns the totals take, in front of what they are of.
TOTALS_COLUMNS = 4


def org_statements(since: datetime | None, most: int) -> tuple[Statement, Statement, Statement]:
    """The org's totals since then, by model, and by plan and run; at most so many of each."""
    return (
        SQL["usage_totals"](since=since),
        SQL["usage_by_model"](since=since, most=most),
        SQL["usage_by_work"](since=since, most=most),
    )


def server_usage_statement(usage_id: str, usage: Usage, *, at: datetime, by: str) -> Statement:
    """Note what the server's own model took."""
    return SQL["insert_own_usage"](
        id=usage_id,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_micros=usage.cost_micros,
        model=usage.model,
        at=at,
        by=by,
    )


def steps_statement(plan_id: str) -> Statement:
    """What each step of a plan took."""
    return SQL["usage_of_steps"](plan_id=plan_id)


def read_totals(row: Sequence[Any]) -> Totals:
    """The totals a row begins with."""
    input_tokens, output_tokens, cost_micros, results = row[:TOTALS_COLUMNS]
    return Totals(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_micros=cost_micros,
        results=results,
    )


def read_steps(rows: Iterable[Sequence[Any]]) -> dict[str, Totals]:
    """The totals of each step, by its id."""
    return {row[TOTALS_COLUMNS]: read_totals(row) for row in rows}
