"""Cost page: tokens and cost by day, by plan or run, by agent and by model."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.usage import count_costs
from waybook.core.usage import Totals
from waybook.transport.http.dashboard.page import PageContext

CHART_HEIGHT: Final = 120
COLUMN_WIDTH: Final = 20
BAR_WIDTH: Final = 14
MIN_BAR_HEIGHT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBar:
    day: date
    usage: Totals
    x: int
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class CostPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        costs = await count_costs(call)
        return await self.page_context.render_page(
            request,
            "cost",
            costs=costs,
            by_cost=has_cost(costs.days),
            bars=day_bars(costs.days),
            chart_width=COLUMN_WIDTH * len(costs.days),
            chart_height=CHART_HEIGHT,
            bar_width=BAR_WIDTH,
        )


def has_cost(days: Mapping[date, Totals]) -> bool:
    return any(usage.cost_micros for usage in days.values())


def day_bars(days: Mapping[date, Totals]) -> list[DayBar]:
    """Return a bar for each day. Its height shows the cost, or tokens if no cost was reported."""
    by_cost = has_cost(days)
    values = [usage.cost_micros if by_cost else usage.tokens for usage in days.values()]
    highest = max(values, default=0) or 1
    bars = []
    for number, ((day, usage), value) in enumerate(zip(days.items(), values, strict=True)):
        height = max(round(value / highest * CHART_HEIGHT), MIN_BAR_HEIGHT) if value else 0
        x = number * COLUMN_WIDTH + (COLUMN_WIDTH - BAR_WIDTH) // 2
        bars.append(DayBar(day=day, usage=usage, x=x, y=CHART_HEIGHT - height, height=height))
    return bars
