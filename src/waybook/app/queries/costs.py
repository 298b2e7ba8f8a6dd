"""Tokens and cost of an org by day, by plan or run, by agent and by model."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from waybook.app.queries.usage import OrgUsage, org_usage
from waybook.app.request.request_context import RequestContext
from waybook.core.usage import NO_USAGE, Totals
from waybook.store import agents, calls
from waybook.store.agents import AgentKey
from waybook.store.calls import read_totals

MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class DayUsage:
    day: date
    usage: Totals


@dataclass(frozen=True, slots=True)
class AgentUsage:
    agent: AgentKey
    usage: Totals
    clients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgCosts:
    org: OrgUsage
    days: tuple[DayUsage, ...]
    agents: tuple[AgentUsage, ...]
    agents_total: int
    completed: int
    unreported: int
    #: Whether the counts are too low because not all audit entries were read.
    is_cut: bool


async def count_costs(ctx: RequestContext, since: datetime | None = None) -> OrgCosts:
    """Return the org's usage since a time (default: 30 days ago)."""
    totals, models, work, days, by_agent, (counted,) = await ctx.read(
        *calls.org_statements(since, MAX_LISTED), *agents.cost_statements(since, MAX_LISTED)
    )
    org = org_usage(totals, models, work)
    by_day = {date.fromisoformat(row.day): read_totals(row) for row in days}
    return OrgCosts(
        org=org,
        days=tuple(DayUsage(day, by_day.get(day, NO_USAGE)) for day in days_of(org)),
        agents=tuple(
            AgentUsage(AgentKey(row.name, row.session), read_totals(row), tuple(row.clients))
            for row in by_agent
        ),
        agents_total=by_agent[0].total if by_agent else 0,
        completed=counted.completed,
        unreported=counted.unreported,
        is_cut=counted.counted >= agents.MAX_ENTRIES_READ,
    )


def days_of(org: OrgUsage) -> list[date]:
    first, last = org.since.astimezone(UTC).date(), org.until.astimezone(UTC).date()
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]
