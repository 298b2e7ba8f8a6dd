"""Front page (overview): work that needs a person, has problems, is running, or has finished."""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.overview import MAX_ENTRIES, LastLook, read_away_summary, read_overview
from waybook.app.request.caller import Answer
from waybook.dag.templates.rendering import markdown_to_html
from waybook.transport.http.dashboard.cards import DECISION_TEXT
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, error_message
from waybook.transport.http.dashboard.plans.plan_forms import modification_arguments, refusal_status
from waybook.transport.http.dashboard.plans.plan_list import mcp_url
from waybook.transport.http.html.forms import read_form

PLAN_LIST_PARAMETERS: Final = frozenset({"state", "q", "mine", "before"})
MAX_LISTED: Final = 200
COOKIE: Final = "waybook_look"
COOKIE_SECONDS: Final = 180 * 86_400
#: Value of the cookie: two times in seconds since 1970.
_TIMES: Final = re.compile(r"([0-9]{1,10})\.([0-9]{1,10})")
CONFIRMATIONS: Final = {
    "reassign": "The step was taken from its holder. The next agent that asks for work gets it.",
    "retry": "The failed work can be claimed again.",
    "cancel": "Canceled. Everything that was stored stays readable.",
}


@dataclass(frozen=True, slots=True)
class OverviewPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if PLAN_LIST_PARAMETERS & request.query_params.keys():
            await self.page_context.request_context(request)
            query = urlencode(request.query_params.multi_items())
            return RedirectResponse(f"/plans?{query}", HTTPStatus.TEMPORARY_REDIRECT)
        return await self._page(request)

    async def rescue(self, request: Request) -> Response:
        """Handle the retry button: let agents claim failed or stalled work again."""
        form = SubmittedForm(await read_form(request))
        answer = await (self._retry_jobs if form.text("run") else self._retry_steps)(request, form)
        if answer.is_error:
            return await self._page(request, answer)
        done = "reassign" if form.text("reassign") else "retry"
        return RedirectResponse(f"/?done={done}", HTTPStatus.SEE_OTHER)

    async def _retry_steps(self, request: Request, form: SubmittedForm) -> Answer:
        steps = [step for step in form.fields.getlist("step") if isinstance(step, str)]
        modifications = [{"action": "retry_step", "stepId": step} for step in steps]
        arguments = modification_arguments(form.text("plan"), form.fields, {})
        return await self.page_context.call_tool(
            request, "modify_plan", {**arguments, "modifications": modifications}
        )

    async def _retry_jobs(self, request: Request, form: SubmittedForm) -> Answer:
        run_id, stage = form.text("run"), form.text("stage")
        # All forms of the page share an idempotency key, so the run and the stage are added to it.
        key = f"{form.text('key')[:64]}:{run_id}:{stage}"[:200]
        return await self.page_context.call_tool(
            request, "retry_failed", {"runId": run_id, "stageSlug": stage, "idempotencyKey": key}
        )

    async def _page(self, request: Request, refused: Answer | None = None) -> Response:
        ctx = await self.page_context.request_context(request)
        only_trouble = request.query_params.get("show") == "trouble"
        most = MAX_LISTED if only_trouble else MAX_ENTRIES
        look = last_look(request)
        overview = await read_overview(ctx, look, most=most)
        # A new browser sees the work that finished within a fixed time instead.
        since_look = overview.since if overview.since in look else None
        reply = await self.page_context.render_page(
            request,
            "overview",
            status_code=refusal_status(refused) if refused else 200,
            overview=overview,
            only_trouble=only_trouble,
            since_look=since_look,
            away=await read_away_summary(ctx, since_look) if since_look else None,
            decision_text=DECISION_TEXT,
            gist=markdown_gist,
            refused=error_message(refused) if refused else None,
            note=CONFIRMATIONS.get(request.query_params.get("done", "")),
            key=secrets.token_urlsafe(16),
            mcp=mcp_url(request),
            needs_token=ctx.caller.credential is not None,
        )
        _set_last_look(request, reply, LastLook(since_look, overview.now))
        return reply


def last_look(request: Request) -> LastLook:
    match = _TIMES.fullmatch(request.cookies.get(COOKIE, ""))
    if match is None:
        return LastLook()
    since, looked_at = (
        datetime.fromtimestamp(int(text), UTC) if int(text) else None for text in match.groups()
    )
    return LastLook(since, looked_at)


def _set_last_look(request: Request, reply: Response, look: LastLook) -> None:
    since, looked_at = (int(at.timestamp()) if at else 0 for at in look)
    reply.set_cookie(
        COOKIE,
        f"{since}.{looked_at}",
        max_age=COOKIE_SECONDS,
        samesite="strict",
        httponly=True,
        secure=request.url.scheme == "https",
        path="/",
    )


def markdown_gist(text: str) -> str:
    """Return Markdown as one line of plain text.

    >>> markdown_gist("**Which** of `a` and *b*?")
    'Which of a and b?'
    """
    return Markup(markdown_to_html(text)).striptags()  # noqa: S704 - only its text is used
