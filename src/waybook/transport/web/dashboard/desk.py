"""What every page has at hand: who is looking, the house to look into, and the way in to act."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse

from waybook.dag.model import Dag
from waybook.doorway import Dispatcher
from waybook.record.scopes import Scope
from waybook.transport.web.dashboard.forms import csrf_token, set_csrf_cookie
from waybook.transport.web.dashboard.frame import render_template
from waybook.usecases.call import RequestContext
from waybook.usecases.draughting import layout_cost
from waybook.usecases.drawing_worker import DrawingJob
from waybook.usecases.exchange import Answer, Caller
from waybook.usecases.permission import require_scope
from waybook.usecases.waiting import count_pending

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageContext:
    doorway: Dispatcher
    caller: Callable[[Request], Awaitable[Caller]]

    async def request_context(self, request: Request) -> RequestContext:
        """A look into the house, as whoever is asking; however often, it counts once.

        Raises:
            Forbidden: they may not even look.
            RateLimited: their org looks too often.
        """
        caller = await self.caller(request)
        require_scope(caller, Scope.PLAN_READ, "looking")
        # Noted before anything is read: what changes from now on, the page will be told.
        if not hasattr(request.state, "position"):
            self.doorway.require_capacity(caller)
            request.state.position = self.doorway.house.bus.position(caller.org_id)
        return RequestContext(services=self.doorway.house, caller=caller)

    async def call_tool(
        self, request: Request, tool: str, arguments: Mapping[str, object]
    ) -> Answer:
        """Act: through the same door as everybody.

        Raises:
            RateLimited: their org acts too often.
        """
        caller = await self.caller(request)
        if self.doorway.retry_after(caller):
            self.doorway.require_capacity(caller, tool)
        return await self.doorway.dispatch(caller, tool, arguments)

    async def run_layout(self, request: Request, dag: Dag, work: Callable[[], T]) -> T:
        """What is made of a map; a large one beside what everybody else asks for.

        Raises:
            Busy: their org has too much drawn at the same time.
        """
        org_id = (await self.caller(request)).org_id
        return await self.doorway.house.layout_worker.run(org_id, layout_cost(dag), work)

    async def picture(self, request: Request, job: DrawingJob) -> str:
        """Return a map as SVG; a large one is drawn by the worker process.

        Raises:
            Busy: their org has too much drawn at the same time.
            TooLarge: it takes too long to draw.
        """
        org_id = (await self.caller(request)).org_id
        return await self.doorway.house.layout_worker.picture(org_id, job)

    async def render_page(
        self, request: Request, name: str, *, status_code: int = 200, **shown: object
    ) -> HTMLResponse:
        """A page in its frame, which tells what waits for a person."""
        found = await count_pending(await self.request_context(request))
        token = csrf_token(request)
        framed = {
            "waiting": found.total,
            "now": found.now,
            "token": token,
            "position": request.state.position,
            **shown,
        }
        reply = render_template(request, name, framed, status_code=status_code)
        set_csrf_cookie(request, reply, token)
        return reply
