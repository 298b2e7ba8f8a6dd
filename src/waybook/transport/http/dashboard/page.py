"""Request context, form input, cards and error pages that the dashboard pages share."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias, TypeVar

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from waybook.app.dispatcher import Dispatcher
from waybook.app.queries.inbox import count_pending
from waybook.app.request.caller import Answer, Caller, require_scope
from waybook.app.request.layout_worker import DrawingJob, LayoutWorker, layout_cost
from waybook.app.request.request_context import RequestContext
from waybook.app.request.short_ids import full_id_of
from waybook.core.decision_context import Scope
from waybook.core.short_ids import IdKind, looks_like_short_id
from waybook.dag.model import Dag
from waybook.errors import WaybookError
from waybook.transport.http.html.error_pages import error_page, wants_html
from waybook.transport.http.html.forms import (
    csrf_token,
    mask_token,
    safe_return_path,
    set_csrf_cookie,
)
from waybook.transport.http.html.layout import render_template
from waybook.transport.http.requests import answer_error_response
from waybook.transport.http.responses import http_status, retry_after_header

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageContext:
    dispatcher: Dispatcher
    caller: Callable[[Request], Awaitable[Caller]]

    async def request_context(self, request: Request) -> RequestContext:
        """Return a read-only request context, and count the request for the rate limit.

        Raises:
            Forbidden: the caller lacks the scope for reading.
            RateLimited: the org exceeded its rate limit.
        """
        caller = await self.caller(request)
        require_scope(caller, Scope.PLAN_READ, "looking")
        # Get the position in the event stream before reading data, so that the page misses no
        # event.
        if not hasattr(request.state, "position"):
            self.dispatcher.require_capacity(caller)
            request.state.position = self.dispatcher.services.bus.position(caller.org_id)
        return RequestContext(services=self.dispatcher.services, caller=caller)

    async def call_tool(
        self, request: Request, tool: str, arguments: Mapping[str, object]
    ) -> Answer:
        caller = await self.caller(request)
        if self.dispatcher.retry_after(caller):
            self.dispatcher.require_capacity(caller, tool)
        return await self.dispatcher.dispatch(caller, tool, arguments)

    async def full_id(self, request: Request, kind: IdKind, text: str) -> str:
        """Return the full id for a short id in a path or form. Other texts stay unchanged.

        Raises:
            NotFound: the short id is mistyped, or does not exist in the org.
        """
        if not looks_like_short_id(text):
            return text
        return await full_id_of(await self.request_context(request), kind, text, kind)

    async def run_layout(self, request: Request, dag: Dag, work: Callable[[], T]) -> T:
        """Lay out a workflow map, in a worker thread if it is large.

        Raises:
            Busy: the org has too many drawings in progress.
        """
        org_id = (await self.caller(request)).org_id
        return await self.dispatcher.services.shared(LayoutWorker).run(
            org_id, layout_cost(dag), work
        )

    async def run_costly(self, request: Request, cost: int, work: Callable[[], T]) -> T:
        """Run a function, in a worker thread if it is costly.

        Raises:
            Busy: the org has too many costly functions in progress.
        """
        org_id = (await self.caller(request)).org_id
        return await self.dispatcher.services.shared(LayoutWorker).run(org_id, cost, work)

    async def picture(self, request: Request, job: DrawingJob) -> str:
        """Return a map as SVG. A large map is drawn by the worker process.

        Raises:
            Busy: the org has too many drawings in progress.
            TooLarge: the map takes too long to draw.
        """
        org_id = (await self.caller(request)).org_id
        return await self.dispatcher.services.shared(LayoutWorker).picture(org_id, job)

    async def render_page(
        self, request: Request, name: str, *, status_code: int = 200, **shown: object
    ) -> HTMLResponse:
        pending = await count_pending(await self.request_context(request))
        token = csrf_token(request)
        framed = {
            "waiting": pending.total,
            "failed_stages": pending.failed_stages,
            "now": pending.now,
            "token": mask_token(token),
            "position": request.state.position,
            **shown,
        }
        reply = render_template(request, name, framed, status_code=status_code)
        set_csrf_cookie(request, reply, token)
        return reply


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    fields: FormData

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        # PostgreSQL text cannot contain NUL.
        return value.replace("\r\n", "\n").replace("\0", "") if isinstance(value, str) else ""

    @property
    def return_path(self) -> str:
        return safe_return_path(self.fields.get("back"))

    def redirect_back(self, request: Request) -> Response | None:
        if is_partial_request(request):
            return None
        return RedirectResponse(self.return_path, HTTPStatus.SEE_OTHER)


def is_partial_request(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def error_message(answer: Answer) -> str:
    error = answer.body.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def error_details(answer: Answer) -> dict[str, object]:
    error = answer.body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    return details if isinstance(details, dict) else {}


async def respond(
    page_context: PageContext, request: Request, form: SubmittedForm, status: int, **card: object
) -> Response:
    shown: dict[str, object] = {"decision": None, "feedback": None, **card}
    code = HTTPStatus.OK if is_partial_request(request) else status
    return await page_context.render_page(
        request, "decide", status_code=code, back=form.return_path, **shown
    )


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


PATH_KINDS: Final = {
    "plan_id": IdKind.PLAN,
    "step_id": IdKind.STEP,
    "run_id": IdKind.RUN,
    "job_id": IdKind.JOB,
}


def with_error_pages(page_context: PageContext, endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint so that errors are shown as an error page, and short ids are accepted."""

    async def shown(request: Request) -> Response:
        try:
            for name in PATH_KINDS.keys() & request.path_params.keys():
                request.path_params[name] = await page_context.full_id(
                    request, PATH_KINDS[name], request.path_params[name]
                )
            return await endpoint(request)
        except WaybookError as error:
            if not wants_html(request):
                return answer_error_response(error.as_json())
            page = error_page(request, http_status(error.code), error.message)
            page.headers.update(retry_after_header(error.details))
            return page

    return shown
