"""What every page has at hand: who is looking, the house to look into, and the way in to act."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse

from waybook.dag.model import Dag
from waybook.doorway import Doorway
from waybook.record.scopes import Scope
from waybook.transport.web.dashboard.forms import token_for, with_token
from waybook.transport.web.dashboard.frame import page
from waybook.usecases.call import Call
from waybook.usecases.draughting import weight_of
from waybook.usecases.drawing_worker import DrawingJob
from waybook.usecases.exchange import Answer, Caller
from waybook.usecases.permission import require
from waybook.usecases.waiting import waiting

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Desk:
    doorway: Doorway
    caller: Callable[[Request], Awaitable[Caller]]

    async def call(self, request: Request) -> Call:
        """A look into the house, as whoever is asking; however often, it counts once.

        Raises:
            Forbidden: they may not even look.
            RateLimited: their org looks too often.
        """
        caller = await self.caller(request)
        require(caller, Scope.PLAN_READ, "looking")
        # Noted before anything is read: what changes from now on, the page will be told.
        if not hasattr(request.state, "position"):
            self.doorway.admit(caller)
            request.state.position = self.doorway.house.bus.position(caller.org_id)
        return Call(house=self.doorway.house, caller=caller)

    async def enter(self, request: Request, tool: str, arguments: Mapping[str, object]) -> Answer:
        """Act: through the same door as everybody.

        Raises:
            RateLimited: their org acts too often.
        """
        caller = await self.caller(request)
        if self.doorway.wait(caller):
            self.doorway.admit(caller, tool)
        return await self.doorway.enter(caller, tool, arguments)

    async def drawn(self, request: Request, dag: Dag, work: Callable[[], T]) -> T:
        """What is made of a map; a large one beside what everybody else asks for.

        Raises:
            Busy: their org has too much drawn at the same time.
        """
        org_id = (await self.caller(request)).org_id
        return await self.doorway.house.draughtsman.draw(org_id, weight_of(dag), work)

    async def picture(self, request: Request, job: DrawingJob) -> str:
        """Return a map as SVG; a large one is drawn by the worker process.

        Raises:
            Busy: their org has too much drawn at the same time.
            TooLarge: it takes too long to draw.
        """
        org_id = (await self.caller(request)).org_id
        return await self.doorway.house.draughtsman.picture(org_id, job)

    async def page(
        self, request: Request, name: str, *, status_code: int = 200, **shown: object
    ) -> HTMLResponse:
        """A page in its frame, which tells what waits for a person."""
        found = await waiting(await self.call(request))
        token = token_for(request)
        framed = {
            "waiting": found.total,
            "now": found.now,
            "token": token,
            "position": request.state.position,
            **shown,
        }
        reply = page(request, name, framed, status_code=status_code)
        with_token(request, reply, token)
        return reply
