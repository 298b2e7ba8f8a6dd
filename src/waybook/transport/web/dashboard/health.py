"""Health: what an examination of the running server finds, and the settings in force."""

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from waybook.record.scopes import Scope
from waybook.settings import Found
from waybook.transport.web.dashboard.desk import Desk
from waybook.usecases.examine_database import examine_database
from waybook.usecases.findings import Finding, State, about_loops, about_machine, about_server
from waybook.usecases.house import House
from waybook.usecases.list_deliveries import count_deliveries
from waybook.usecases.permission import require
from waybook.usecases.secrets import in_force
from waybook.usecases.webhook_findings import about_notices, about_webhooks


@dataclass(frozen=True, slots=True)
class Health:
    desk: Desk
    #: None where nobody told.
    found: Found | None = None

    async def __call__(self, request: Request) -> Response:
        """The page."""
        call, house = await self.desk.call(request), self.desk.doorway.house
        require(call.caller, Scope.ADMIN, "looking at the server's health")
        seen = await examine_database(call)
        abilities = await house.library.abilities(house.database, call.caller.org_id)
        findings = [*about_server(seen, with_size=False)]
        findings += [Finding("search", State.OK, abilities.told)]
        findings += about_loops(house.loops)
        findings += about_notices(await count_deliveries(call), configured=bool(house.tells))
        if self.found is not None:
            findings += await asyncio.to_thread(_machine, self.found)
        return await self.desk.page(
            request,
            "health",
            findings=findings,
            thresholds=_thresholds(house),
            settings=in_force(self.found) if self.found else (),
        )


def _machine(found: Found) -> list[Finding]:
    return [*about_machine(found.settings), *about_webhooks(found.settings)]


def _thresholds(house: House) -> dict[str, object]:
    """After how long something counts, for plans and jobs that say nothing themselves."""
    return {
        "a step is stalled after": house.patience,
        "a job goes back after": house.lease,
    }
