"""The runs: where each stands, a page at a time."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.run.standing import RunState
from waybook.store.runs import LAST_ID, RunFilter
from waybook.transport.web.dashboard.addresses import current_url_with, query_param
from waybook.transport.web.dashboard.desk import PageContext
from waybook.transport.web.dashboard.run_view import stage_name
from waybook.usecases.list_runs import list_runs

STATES: Final = ("open", *map(str, RunState))


@dataclass(frozen=True, slots=True)
class RunsPage:
    desk: PageContext

    async def __call__(self, request: Request) -> Response:
        """The list, of those asked for."""
        state = query_param(request, "state")
        asked = RunFilter(
            state=state if state in STATES else None,
            dag=query_param(request, "dag"),
            text=query_param(request, "q") or "",
            before=query_param(request, "before") or LAST_ID,
        )
        found = await list_runs(await self.desk.request_context(request), asked)
        last = found.runs[-1].run.id if found.more else None
        return await self.desk.render_page(
            request,
            "runs",
            runs=found.runs,
            named=stage_name,
            states=STATES,
            asked=asked,
            first=asked.before == LAST_ID,
            further=current_url_with(request, before=last) if last else None,
            newest=current_url_with(request, before=None),
        )
