"""Summary of what was done in an org while a reader was away."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from waybook.app.request.request_context import RequestContext
from waybook.store.activity import ActivityCounts, DecisionCount, activity_statements


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaySummary:
    since: datetime
    counts: ActivityCounts
    decisions: Sequence[DecisionCount]

    @property
    def reviews(self) -> int:
        return sum(item.reviews for item in self.decisions)


async def read_away_summary(ctx: RequestContext, since: datetime) -> AwaySummary | None:
    (counts,), decisions = await ctx.read(*activity_statements(since))
    done = counts.steps + counts.jobs + counts.failures + counts.cost_micros
    if not done and not decisions:
        return None
    return AwaySummary(since=since, counts=counts, decisions=decisions)
