"""Health page with check results and effective settings, and page with tool call statistics."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.diagnostics import (
    about_loops,
    check_database,
    check_machine,
    check_notifications,
    check_server,
    check_webhooks,
)
from waybook.app.operations.settings_display import effective_settings
from waybook.app.operations.trials import about_quarantine
from waybook.app.queries.usage import MAX_COUNTED, count_calls, count_deliveries
from waybook.app.request.caller import require_scope
from waybook.app.request.search.search_backend import search_backend
from waybook.app.request.services import Services
from waybook.core.decision_context import Scope
from waybook.settings import LoadedSettings
from waybook.transport.http.dashboard.page import PageContext


@dataclass(frozen=True, slots=True)
class HealthPage:
    page_context: PageContext
    loaded_settings: LoadedSettings | None = None

    async def __call__(self, request: Request) -> Response:
        call, services = (
            await self.page_context.request_context(request),
            self.page_context.dispatcher.services,
        )
        require_scope(call.caller, Scope.ADMIN, "looking at the server's health")
        seen = await check_database(call)
        abilities = await search_backend(services).capabilities(
            services.database, call.caller.org_id
        )
        findings = [*check_server(seen, with_size=False)]
        findings += [CheckResult("search", CheckState.OK, abilities.describe)]
        findings += about_loops(services.loops)
        findings += [await about_quarantine(call, everywhere=False)]
        findings += check_notifications(
            await count_deliveries(call), configured=bool(services.notification_events)
        )
        if self.loaded_settings is not None:
            findings += await asyncio.to_thread(_machine, self.loaded_settings)
        return await self.page_context.render_page(
            request,
            "health",
            findings=findings,
            thresholds=_thresholds(services),
            settings=effective_settings(self.loaded_settings) if self.loaded_settings else (),
        )


def _machine(loaded: LoadedSettings) -> list[CheckResult]:
    return [*check_machine(loaded.settings), *check_webhooks(loaded.settings)]


def _thresholds(services: Services) -> dict[str, object]:
    return {
        "a step is stalled after": services.stall_threshold,
        "a job is released after": services.lease,
    }


WINDOWS: Final = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
DEFAULT_WINDOW: Final = "24h"


@dataclass(frozen=True, slots=True)
class CallsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        requested = request.query_params.get("window", DEFAULT_WINDOW)
        window = requested if requested in WINDOWS else DEFAULT_WINDOW
        call = await self.page_context.request_context(request)
        counted = await count_calls(call, WINDOWS[window])
        return await self.page_context.render_page(
            request,
            "calls",
            calls=counted,
            window=window,
            windows=tuple(WINDOWS),
            most=MAX_COUNTED,
            dropped=self.page_context.dispatcher.calls.dropped_of[call.caller.org_id],
        )
