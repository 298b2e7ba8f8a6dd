"""Pages about the server and its use: health, statistics of tool calls, and cost."""

import asyncio
from datetime import timedelta
from typing import Final

from starlette.responses import Response

from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.diagnostics import (
    about_loops,
    about_quarantine,
    check_machine,
    check_notifications,
    check_server,
    check_webhooks,
)
from waybook.app.operations.settings_display import effective_settings
from waybook.app.queries.usage import MAX_COUNTED, count_calls, count_costs, count_deliveries
from waybook.app.request.caller import require_scope
from waybook.app.request.search_backend import search_backend
from waybook.core.decision_context import Scope
from waybook.settings import LoadedSettings
from waybook.transport.http.dashboard.page import PageRequest

_WINDOWS: Final = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
_DEFAULT_WINDOW: Final = "24h"
_CHART_HEIGHT: Final = 120
_COLUMN_WIDTH: Final = 20
_BAR_WIDTH: Final = 14
_MIN_BAR_HEIGHT: Final = 2


async def health_page(loaded: LoadedSettings | None, page: PageRequest) -> Response:
    """Show the results of all checks and, if the server has one org, the effective settings."""
    ctx, services = await page.context(), page.dispatcher.services
    require_scope(ctx.caller, Scope.ADMIN, "looking at the server's health")
    search = await search_backend(services).capabilities(services.database, ctx.caller.org_id)
    findings = [
        *await check_server(ctx, with_size=False),
        CheckResult("search", CheckState.OK, search.describe),
        *about_loops(services.loops),
        await about_quarantine(ctx, everywhere=False),
        *check_notifications(
            await count_deliveries(ctx), configured=bool(services.notification_events)
        ),
    ]
    if loaded is not None:
        settings = loaded.settings
        findings += await asyncio.to_thread(
            lambda: [*check_machine(settings), check_webhooks(settings)]
        )
    return await page.render(
        "health",
        findings=findings,
        thresholds={
            "a step is stalled after": services.stall_threshold,
            "a job is released after": services.lease,
        },
        settings=effective_settings(loaded) if loaded else (),
    )


async def calls_page(page: PageRequest) -> Response:
    requested = page.request.query_params.get("window", _DEFAULT_WINDOW)
    window = requested if requested in _WINDOWS else _DEFAULT_WINDOW
    ctx = await page.context()
    return await page.render(
        "calls",
        calls=await count_calls(ctx, _WINDOWS[window]),
        window=window,
        windows=tuple(_WINDOWS),
        most=MAX_COUNTED,
        dropped=page.dispatcher.calls.dropped_of[ctx.caller.org_id],
    )


async def cost_page(page: PageRequest) -> Response:
    """Show tokens and cost by day, by plan or run, by agent and by model."""
    costs = await count_costs(await page.context())
    # The bars show the cost of each day or, if no day has a cost, the tokens of each day.
    by_cost = any(usage.cost_micros for usage in costs.days.values())
    values = [usage.cost_micros if by_cost else usage.tokens for usage in costs.days.values()]
    highest = max(values, default=0) or 1
    return await page.render(
        "cost",
        costs=costs,
        by_cost=by_cost,
        heights=[
            max(round(value / highest * _CHART_HEIGHT), _MIN_BAR_HEIGHT) if value else 0
            for value in values
        ],
        column_width=_COLUMN_WIDTH,
        chart_height=_CHART_HEIGHT,
        bar_width=_BAR_WIDTH,
    )
