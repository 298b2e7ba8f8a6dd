"""What every page has at hand: who is looking, the house to look into, and the way in to act.

What a form said, and the card that answers it.

What stands in the way of a whole page, as a page: no such plan, a form that is out of date.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, TypeVar

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from waybook.app.dispatcher import Dispatcher
from waybook.app.queries.inbox import count_pending
from waybook.app.request.caller import Answer, Caller, require_scope
from waybook.app.request.drawing_worker import DrawingJob
from waybook.app.request.layout_worker import layout_cost
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Scope
from waybook.dag.model import Dag
from waybook.errors import WaybookError
from waybook.transport.http.html.error_pages import error_page, wants_html
from waybook.transport.http.html.forms import csrf_token, safe_return_path, set_csrf_cookie
from waybook.transport.http.html.layout import render_template
from waybook.transport.http.requests import answer_error_response, http_status
from waybook.transport.http.responses import retry_after_header

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


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """The fields of a form."""

    fields: FormData

    def text(self, name: str) -> str:
        """What stands in a field, its lines ended as we end them."""
        value = self.fields.get(name)
        # What PostgreSQL cannot keep, it cannot find either.
        return value.replace("\r\n", "\n").replace("\0", "") if isinstance(value, str) else ""

    @property
    def return_path(self) -> str:
        """Where the person came from."""
        return safe_return_path(self.fields.get("back"))

    def redirect_back(self, request: Request) -> Response | None:
        """Back to where they came from, unless their page waits for the card alone."""
        if is_partial_request(request):
            return None
        return RedirectResponse(self.return_path, HTTPStatus.SEE_OTHER)


def is_partial_request(request: Request) -> bool:
    """Whether a page that stays open asks for a piece of it."""
    return request.headers.get("hx-request") == "true"


def error_message(answer: Answer) -> str:
    """What an error says to people."""
    error = answer.body.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def error_details(answer: Answer) -> dict[str, object]:
    """What an error says beside its message."""
    error = answer.body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    return details if isinstance(details, dict) else {}


async def respond(
    desk: PageContext, request: Request, said: SubmittedForm, status: int, **card: object
) -> Response:
    """A page with the card alone; a page that is open takes it from there."""
    shown: dict[str, object] = {"decision": None, "feedback": None, **card}
    code = HTTPStatus.OK if is_partial_request(request) else status
    return await desk.render_page(
        request, "decide", status_code=code, back=said.return_path, **shown
    )


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def with_error_pages(_: PageContext, endpoint: Endpoint) -> Endpoint:
    """The same page; where it refuses, it says so in words, and where to go from here."""

    async def shown(request: Request) -> Response:
        try:
            return await endpoint(request)
        except WaybookError as error:
            if not wants_html(request):
                return answer_error_response(error.as_json())
            page = error_page(request, http_status(error.code), error.message)
            page.headers.update(retry_after_header(error.details))
            return page

    return shown
