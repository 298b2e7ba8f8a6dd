"""`PageRequest`: a request for a dashboard page, with functions that all pages need.

These functions read data and forms, render templates, and show errors.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from waybook.app.dispatcher import Dispatcher
from waybook.app.queries.agent_names import load_agent_names
from waybook.app.queries.comments import Subject, read_thread, thread_statements
from waybook.app.queries.inbox import PENDING_COUNTS
from waybook.app.request.arguments import id_not_found
from waybook.app.request.caller import Answer, Caller, require_scope
from waybook.app.request.layout_worker import DrawingJob, LayoutWorker
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Scope
from waybook.core.ids import IdKind, is_mistyped, normalize_id
from waybook.errors import InvalidInput, WaybookError
from waybook.transport.http.html.layout import error_reply, read_form, render_form, safe_return_path
from waybook.transport.http.responses import http_status
from waybook.transport.jsonrpc import code_of

T = TypeVar("T")

#: Query parameters that links never contain: the name of a page part, and secrets.
_NEVER_KEPT: Final = frozenset({"part", "token", "access_token"})

_PATH_KINDS: Final = {
    "plan_id": IdKind.PLAN,
    "step_id": IdKind.STEP,
    "run_id": IdKind.RUN,
    "job_id": IdKind.JOB,
}


def require_id(kind: IdKind, text: str) -> str:
    """Return the usual spelling of an id that comes from a path or form.

    Raises:
        NotFound: the text cannot be an id.
    """
    if is_mistyped(text):
        raise id_not_found(kind, kind, text)
    return normalize_id(text)


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


@dataclass(frozen=True, slots=True)
class PageRequest:
    request: Request
    dispatcher: Dispatcher
    authenticate: Callable[[Request], Awaitable[Caller]]

    @property
    def is_post(self) -> bool:
        return self.request.method == "POST"

    @property
    def is_partial(self) -> bool:
        """Return whether the script of an open page requests a part of the page."""
        return self.request.headers.get("hx-request") == "true"

    def path(self, name: str) -> str:
        text: str = self.request.path_params[name]
        return text

    def query(self, name: str) -> str | None:
        text = self.request.query_params.get(name, "").strip()
        # PostgreSQL text cannot contain NUL.
        return text.replace("\0", "") or None

    def number(self, name: str) -> int | None:
        """Return a query parameter that is a number, or None."""
        text = self.request.query_params.get(name, "")
        return int(text[:9]) if text.isascii() and text.isdecimal() else None

    def choice(self, name: str, options: Collection[str], usual: str) -> str:
        """Return a query parameter that is one of the options.

        Raises:
            InvalidInput: it is another text.
        """
        chosen = self.query(name) or usual
        if chosen not in options:
            raise InvalidInput(f"{name} must be one of {', '.join(options)}", argument=name)
        return chosen

    def url_with(self, **changes: str | int | None) -> str:
        """Return the URL of this page with other query parameters. None removes a parameter."""
        params = {**self.request.query_params, **changes}
        kept = {k: v for k, v in params.items() if k not in _NEVER_KEPT and v not in {None, ""}}
        path = self.request.url.path
        return f"{path}?{urlencode(kept)}" if kept else path

    def list_links(self, name: str, cursor: str | None) -> dict[str, Any]:
        """Return template values for links to other pages of a list.

        The query parameter `name` has the cursor of the shown page, and `cursor` is the next one.
        """
        return {
            "first": self.query(name) is None,
            "further": self.url_with(**{name: cursor}) if cursor else None,
            "newest": self.url_with(**{name: None}),
        }

    async def form(self) -> SubmittedForm:
        return SubmittedForm(await read_form(self.request))

    async def caller(self) -> Caller:
        return await self.authenticate(self.request)

    async def context(self) -> RequestContext:
        """Return a read-only request context, and count the request for the rate limit.

        Raises:
            Forbidden: the caller lacks the scope for reading.
            RateLimited: the org exceeded its rate limit.
        """
        caller = await self.caller()
        require_scope(caller, Scope.PLAN_READ, "looking")
        # Get the position in the event stream before the page reads data, so that the page misses
        # no change.
        if not hasattr(self.request.state, "position"):
            self.dispatcher.require_capacity(caller)
            self.request.state.position = self.dispatcher.services.bus.position(caller.org_id)
        return RequestContext(services=self.dispatcher.services, caller=caller)

    async def call_tool(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        caller = await self.caller()
        if self.dispatcher.retry_after(caller):
            self.dispatcher.require_capacity(caller, tool)
        return await self.dispatcher.dispatch(caller, tool, arguments)

    async def run_costly(self, cost: int, work: Callable[[], T]) -> T:
        """Run a function, in a worker thread if it is costly.

        Raises:
            Busy: the org has too many costly functions in progress.
        """
        org_id = (await self.caller()).org_id
        return await self.dispatcher.services.shared(LayoutWorker).run(org_id, cost, work)

    async def picture(self, job: DrawingJob) -> str:
        """Return a map as SVG. A separate process draws large maps.

        Raises:
            Busy: the org has too many drawings in progress.
            TooLarge: the map takes too long to draw.
        """
        org_id = (await self.caller()).org_id
        return await self.dispatcher.services.shared(LayoutWorker).picture(org_id, job)

    async def render(
        self,
        template: str,
        /,
        *,
        status: int = 200,
        thread_of: Subject | None = None,
        **shown: object,
    ) -> HTMLResponse:
        """Render a page, with the thread of comments of `thread_of`."""
        ctx = await self.context()
        statements = thread_statements(thread_of, self.query("before")) if thread_of else ()
        (pending,), *results = await load_agent_names(ctx, PENDING_COUNTS, *statements)
        framed = {
            "thread": read_thread(thread_of, results) if thread_of else None,
            "waiting": pending.total,
            "failed_stages": pending.failed_stages,
            "now": pending.now,
            "position": self.request.state.position,
            # The idempotency key of the forms of the page.
            "key": secrets.token_urlsafe(16),
            **shown,
        }
        return render_form(self.request, template, framed, status_code=status)


Handler: TypeAlias = Callable[[PageRequest], Awaitable[Response]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def page_endpoint(
    dispatcher: Dispatcher, authenticate: Callable[[Request], Awaitable[Caller]], handler: Handler
) -> Endpoint:
    """Return an endpoint that accepts ids in any spelling, and shows errors as an error page."""

    async def endpoint(request: Request) -> Response:
        page, params = PageRequest(request, dispatcher, authenticate), request.path_params
        try:
            for name in _PATH_KINDS.keys() & params.keys():
                params[name] = require_id(_PATH_KINDS[name], params[name])
            return await handler(page)
        except WaybookError as error:
            return error_reply(request, error)

    return endpoint


def redirect(path: str) -> Response:
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)


def error_message(answer: Answer) -> str:
    error = answer.body.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def error_status(answer: Answer) -> int:
    code = code_of(answer)
    return HTTPStatus.CONFLICT if code == "STALE_PLAN" else http_status(code)


def is_number(text: str) -> bool:
    """Return whether the text is a number of at most nine digits.

    >>> is_number("12"), is_number(""), is_number("1" * 5000), is_number("²")
    (True, False, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= len("123456789")
