"""Queries of an org's usage: calls, tokens, cost by day and by agent, and sent notifications."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from waybook.app.request.request_context import RequestContext
from waybook.core.usage import Totals
from waybook.errors import NotFound
from waybook.store import agents, calls, deliveries
from waybook.store.calls import WorkUsageRow
from waybook.store.driver.queries import Row, is_uuid

__all__ = ["Row"]

MAX_PARTS = agents.MAX_PARTS

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
    sums: Sequence[Row], models: Sequence[Row], work: Sequence[WorkUsageRow]
) -> OrgUsage:
    (totals,) = sums
    return OrgUsage(
        since=totals.since,
        until=totals.until,
        usage=totals.usage,
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


MAX_LISTED = 20
MAX_EXPORTED = 20_000
_UNITS = {"hour": timedelta(days=2), "day": timedelta(days=120)}


class CostFilter(NamedTuple):
    """Period of a report of costs, and what its columns are split by. An open period ends now."""

    since: datetime
    until: datetime | None
    now: datetime
    by: str

    @property
    def end(self) -> datetime:
        return min(self.until or self.now, self.now)

    @property
    def unit(self) -> str:
        """Return what a column stands for: an hour, a day or a week."""
        length = self.end - self.since
        return next((unit for unit, most in _UNITS.items() if length < most), "week")


class Costs(NamedTuple):
    org: OrgUsage
    #: Usage by time, oldest first, split by `CostFilter.by`.
    times: Sequence[Row]
    agents: Sequence[Row]
    #: Usage in the period of the same length before.
    before: Totals
    budgets: Row
    completed: int
    unreported: int
    #: The counts of results are too low, because not all audit entries were read.
    is_cut: bool

    @property
    def agents_total(self) -> int:
        return self.agents[0].total if self.agents else 0


async def count_costs(ctx: RequestContext, wanted: CostFilter) -> Costs:
    """Return the org's usage in a period, by time, plan or run, agent and model."""
    before = wanted.since - (wanted.end - wanted.since)
    totals, models, work, times, by_agent, (counts,), (earlier,), (budgets,) = await ctx.read(
        *calls.org_statements(wanted.since, MAX_LISTED, wanted.until),
        *agents.cost_statements(wanted.since, MAX_LISTED, wanted.until, wanted.unit, wanted.by),
        calls.SQL["usage_totals"](since=before, until=wanted.since),
        calls.SQL["budgets"](since=wanted.since, until=wanted.until),
    )
    return Costs(
        org=_org_usage(totals, models, work),
        times=times,
        agents=by_agent,
        before=earlier.usage,
        budgets=budgets,
        completed=counts.completed,
        unreported=counts.unreported,
        is_cut=counts.counted >= agents.MAX_ENTRIES_READ,
    )


async def export_costs(ctx: RequestContext, wanted: CostFilter) -> Sequence[Row]:
    """Return the usage by time of every model, agent or workflow."""
    (rows,) = await ctx.read(
        agents.time_statement(wanted.since, wanted.until, wanted.unit, wanted.by, MAX_EXPORTED)
    )
    return rows
