"""Health: what an examination of the running server finds, and the settings in force."""

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from waybook.record.scopes import Scope
from waybook.settings import LoadedSettings
from waybook.transport.web.dashboard.desk import PageContext
from waybook.usecases.examine_database import check_database
from waybook.usecases.findings import (
    CheckResult,
    CheckState,
    about_loops,
    check_machine,
    check_server,
)
from waybook.usecases.house import Services
from waybook.usecases.list_deliveries import count_deliveries
from waybook.usecases.permission import require_scope
from waybook.usecases.secrets import effective_settings
from waybook.usecases.trials import about_quarantine
from waybook.usecases.webhook_findings import check_notifications, check_webhooks


@dataclass(frozen=True, slots=True)
class HealthPage:
    desk: PageContext
    #: None where nobody told.
    found: LoadedSettings | None = None

    async def __call__(self, request: Request) -> Response:
        """The page."""
        call, services = await self.desk.request_context(request), self.desk.doorway.house
        require_scope(call.caller, Scope.ADMIN, "looking at the server's health")
        seen = await check_database(call)
        abilities = await services.search_backend.capabilities(
            services.database, call.caller.org_id
        )
        findings = [*check_server(seen, with_size=False)]
        findings += [CheckResult("search", CheckState.OK, abilities.describe)]
        findings += about_loops(services.loops)
        findings += [await about_quarantine(call, everywhere=False)]
        findings += check_notifications(
            await count_deliveries(call), configured=bool(services.notification_events)
        )
        if self.found is not None:
            findings += await asyncio.to_thread(_machine, self.found)
        return await self.desk.render_page(
            request,
            "health",
            findings=findings,
            thresholds=_thresholds(services),
            settings=effective_settings(self.found) if self.found else (),
        )


def _machine(found: LoadedSettings) -> list[CheckResult]:
    return [*check_machine(found.settings), *check_webhooks(found.settings)]


def _thresholds(services: Services) -> dict[str, object]:
    """After how long something counts, for plans and jobs that say nothing themselves."""
    return {
        "a step is stalled after": services.stall_threshold,
        "a job goes back after": services.lease,
    }
