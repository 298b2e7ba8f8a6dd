"""Queries of an org's usage: calls, tokens, cost by day and by agent, and sent notifications."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from waybook.app.request.request_context import RequestContext
from waybook.core.usage import NO_USAGE, Totals
from waybook.errors import NotFound
from waybook.store import agents, calls, deliveries
from waybook.store.calls import (
    WorkUsageRow,
)
from waybook.store.driver.queries import Row, is_uuid

__all__ = ["Row"]

MAX_COUNTED = 100_000
MAX_ERRORS = 20


async def count_calls(ctx: RequestContext, window: timedelta) -> dict[str, Any]:
    seconds = int(window.total_seconds())
    tools, errors = await ctx.read(
        calls.SQL["calls_by_tool"](seconds=seconds, most=MAX_COUNTED),
        calls.SQL["last_errors"](seconds=seconds, most=MAX_ERRORS),
    )
    total = sum(tool.calls for tool in tools)
    return {
        "tools": tools,
        "errors": errors,
        "total": total,
        "failed": sum(tool.errors for tool in tools),
        "cut": total >= MAX_COUNTED,
    }


_DEFAULT_LIMIT = 20


class OrgUsage(NamedTuple):
    since: datetime
    until: datetime
    usage: Totals
    models: Sequence[Row]
    work: Sequence[WorkUsageRow]
    models_total: int
    work_total: int


async def count_usage(
    ctx: RequestContext, since: datetime | None = None, most: int = _DEFAULT_LIMIT
) -> OrgUsage:
    return _org_usage(*await ctx.read(*calls.org_statements(since, most)))


def _org_usage(
    sums: Sequence[Sequence[Any]], models: Sequence[Row], work: Sequence[WorkUsageRow]
) -> OrgUsage:
    ((*totals, since, until),) = sums
    return OrgUsage(
        since=since,
        until=until,
        usage=Totals(*totals),
        models=models,
        work=work,
        models_total=models[0].total if models else 0,
        work_total=work[0].total if work else 0,
    )


async def list_deliveries(ctx: RequestContext, *, limit: int = 20) -> list[Row]:
    (rows,) = await ctx.read(deliveries.SQL["latest"](most=limit, id=None))
    return deliveries.read_latest(rows)


async def get_delivery(ctx: RequestContext, message_id: str) -> Row:
    if is_uuid(message_id):
        (rows,) = await ctx.read(deliveries.SQL["latest"](most=1, id=message_id))
        for delivery in deliveries.read_latest(rows):
            return delivery
    raise delivery_not_found()


async def count_deliveries(ctx: RequestContext) -> Row:
    ((counts,),) = await ctx.read(deliveries.SQL["delivery_counts"]())
    return counts


def delivery_not_found() -> NotFound:
    return NotFound("there is no notification with this id here; see: waybook webhooks list")


MAX_LISTED = 50


async def count_costs(ctx: RequestContext) -> dict[str, Any]:
    """Return the org's usage of the last 30 days, also by day and by agent."""
    totals, models, work, days, by_agent, (counts,) = await ctx.read(
        *calls.org_statements(None, MAX_LISTED), *agents.cost_statements(None, MAX_LISTED)
    )
    org = _org_usage(totals, models, work)
    first, last = org.since.date(), org.until.date()
    every_day = (first + timedelta(days=n) for n in range((last - first).days + 1))
    by_day = {date.fromisoformat(row.day): row.usage for row in days}
    return {
        "org": org,
        "days": {day: by_day.get(day, NO_USAGE) for day in every_day},
        "agents": by_agent,
        "agents_total": by_agent[0].total if by_agent else 0,
        "completed": counts.completed,
        "unreported": counts.unreported,
        # The counts are too low if not all audit entries were read.
        "is_cut": counts.counted >= agents.MAX_ENTRIES_READ,
    }
