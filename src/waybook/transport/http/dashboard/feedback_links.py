"""Page that a link in a message opens, to give feedback on a stage without sign-in.

Opening the link changes nothing. Only the form gives feedback.
"""

from dataclasses import dataclass, replace
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.accounts.links import AccessLink, LinkKind, link_decider, link_reader
from waybook.app.queries.inbox import read_pending_stage, read_stage_documents
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.request.request_context import RequestContext
from waybook.transport.errors import code_of
from waybook.transport.http.authentication import is_cross_site_navigation
from waybook.transport.http.dashboard.cards import (
    DecisionOutcome,
    FeedbackCard,
    FormInput,
    feedback_card,
)
from waybook.transport.http.dashboard.inbox import STAGE_FEEDBACK_REQUIRED_MESSAGE
from waybook.transport.http.dashboard.link_access import (
    LinkAccess,
    mark_private,
    reason_unusable,
    render_link_page,
)
from waybook.transport.http.dashboard.page import SubmittedForm, error_message
from waybook.transport.http.html.error_pages import redirect_page
from waybook.transport.http.html.forms import read_form


@dataclass(frozen=True, slots=True)
class FeedbackLinkPage:
    access: LinkAccess

    async def __call__(self, request: Request) -> Response:
        if is_cross_site_navigation(request):
            # A browser that comes from another site does not send the cookie, so redirect it
            # through our own page.
            return mark_private(redirect_page(request, request.url.path))
        link = await self.access.find(request, LinkKind.FEEDBACK)
        self.access.dispatcher.require_capacity(link_reader(link))
        if request.method == "POST":
            return await self._submit(request, link)
        return await self._page(request, link, FormInput())

    async def _submit(self, request: Request, link: AccessLink) -> Response:
        typed = FormInput(feedback=SubmittedForm(await read_form(request)).text("feedback"))
        if reason_unusable(link):
            return await self._page(request, link, typed)
        if not typed.feedback.strip():
            typed = replace(typed, error=STAGE_FEEDBACK_REQUIRED_MESSAGE)
            return await self._page(request, link, typed, HTTPStatus.BAD_REQUEST)
        arguments = {"runId": link.run_id, "stageSlug": link.stage, "feedback": typed.feedback}
        answer = await self.access.dispatcher.dispatch(
            link_decider(link), "submit_stage_feedback", arguments
        )
        if not answer.is_error:
            return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)
        if code_of(answer) == "NOT_AWAITING_REVIEW":
            return await self._page(request, link, typed, HTTPStatus.CONFLICT)
        typed = replace(typed, error=error_message(answer))
        return await self._page(request, link, typed, HTTPStatus.BAD_REQUEST)

    async def _page(
        self, request: Request, link: AccessLink, typed: FormInput, status: int = HTTPStatus.OK
    ) -> Response:
        shown: dict[str, object] = {}
        if not reason_unusable(link):
            services, caller = self.access.dispatcher.services, link_reader(link)
            ctx = RequestContext(services=services, caller=caller)
            detail = await read_run_detail(ctx, link.run_id or "", RunInclude.NOTHING)
            is_late = status == HTTPStatus.CONFLICT
            shown = {
                "card": await _card(ctx, detail, link.stage or "", typed, is_late=is_late),
                "is_canceled": detail.run.canceled_at is not None,
                "now": detail.now,
            }
        return render_link_page(request, "feedback_link", link, shown, status)


async def _card(
    ctx: RequestContext, detail: RunDetail, slug: str, typed: FormInput, *, is_late: bool
) -> FeedbackCard:
    pending = await read_pending_stage(ctx, detail.run.id, slug)
    (documents,) = await read_stage_documents(ctx, [pending])
    stage = detail.run.stages[slug]
    card = feedback_card(pending, documents, typed)
    card = replace(card, since=stage.completed_at or card.since)
    if stage.feedback is None:
        return card
    outcome = DecisionOutcome(
        by=stage.feedback_by or "another user",
        text="gave feedback",
        at=stage.feedback_at,
        feedback=stage.feedback,
        too_late=is_late,
    )
    return replace(card, outcome=outcome)
