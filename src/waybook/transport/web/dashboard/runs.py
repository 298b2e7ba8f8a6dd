"""The runs: where each stands, a page at a time."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.run.standing import RunState
from waybook.store.runs import LAST_ID, AskedRuns
from waybook.transport.web.dashboard.addresses import asked_for, here_with
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.run_view import named
from waybook.usecases.list_runs import list_runs

STATES: Final = ("open", *map(str, RunState))


@dataclass(frozen=True, slots=True)
class Runs:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The list, of those asked for."""
        state = asked_for(request, "state")
        asked = AskedRuns(
            state=state if state in STATES else None,
            dag=asked_for(request, "dag"),
            text=asked_for(request, "q") or "",
            before=asked_for(request, "before") or LAST_ID,
        )
        found = await list_runs(await self.desk.call(request), asked)
        last = found.runs[-1].run.id if found.more else None
        return await self.desk.page(
            request,
            "runs",
            runs=found.runs,
            named=named,
            states=STATES,
            asked=asked,
            first=asked.before == LAST_ID,
            further=here_with(request, before=last) if last else None,
            newest=here_with(request, before=None),
        )
