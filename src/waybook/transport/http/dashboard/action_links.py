"""Page that a link in a review message opens, without sign-in.

Chat services and mail filters open links to preview them, so only the form on the page decides the
review.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.accounts.links import AccessLink, LinkKind, link_decider, link_reader
from waybook.app.queries.inbox import read_evidence, read_review
from waybook.app.request.caller import Answer
from waybook.app.request.request_context import RequestContext
from waybook.errors import NotFound
from waybook.transport.errors import code_of
from waybook.transport.http.authentication import is_cross_site_navigation
from waybook.transport.http.dashboard.cards import DecisionCard, FormInput, decided_card
from waybook.transport.http.dashboard.inbox import (
    ALREADY_DECIDED_CODES,
    FEEDBACK_REQUIRED_MESSAGE,
)
from waybook.transport.http.dashboard.link_access import (
    LinkAccess,
    mark_private,
    reason_unusable,
    render_link_page,
)
from waybook.transport.http.dashboard.page import SubmittedForm, error_message
from waybook.transport.http.html.error_pages import redirect_page
from waybook.transport.http.html.forms import read_form

DECISION_LABELS: Final = {
    "approve": "Approve",
    "modify": "Request changes",
    "skip": "Skip step",
    "reject": "Reject and fail the plan",
}


@dataclass(frozen=True, slots=True)
class ActionLinkPage:
    access: LinkAccess

    async def __call__(self, request: Request) -> Response:
        if is_cross_site_navigation(request):
            # A browser that comes from another site does not send the cookie, so redirect it
            # through our own page.
            return mark_private(redirect_page(request, request.url.path))
        decision = request.path_params["decision"]
        if decision not in DECISION_LABELS:
            raise NotFound("there is no such decision; open the link in the message again")
        link = await self.access.find(request, LinkKind.REVIEW)
        self.access.dispatcher.require_capacity(link_reader(link))
        if request.method == "POST":
            return await self._decide(request, link, decision)
        return await self._page(request, link, FormInput())

    async def _decide(self, request: Request, link: AccessLink, decision: str) -> Response:
        feedback = SubmittedForm(await read_form(request)).text("feedback")
        if reason_unusable(link):
            return await self._page(request, link, FormInput())
        if decision == "modify" and not feedback.strip():
            typed = FormInput(feedback=feedback, error=FEEDBACK_REQUIRED_MESSAGE)
            return await self._page(request, link, typed, HTTPStatus.BAD_REQUEST)
        answer = await self._submit(link, decision, feedback)
        if not answer.is_error:
            return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)
        if code_of(answer) in ALREADY_DECIDED_CODES:
            typed = FormInput(feedback=feedback)
            return await self._page(request, link, typed, HTTPStatus.CONFLICT)
        typed = FormInput(feedback=feedback, error=error_message(answer))
        return await self._page(request, link, typed, HTTPStatus.BAD_REQUEST)

    async def _submit(self, link: AccessLink, decision: str, feedback: str) -> Answer:
        arguments = {"planId": link.plan_id, "reviewId": link.review_id, "decision": decision}
        more = {"feedback": feedback} if feedback.strip() else {}
        return await self.access.dispatcher.dispatch(
            link_decider(link), "submit_user_decision", {**arguments, **more}
        )

    async def _page(
        self, request: Request, link: AccessLink, typed: FormInput, status: int = HTTPStatus.OK
    ) -> Response:
        is_late = status != HTTPStatus.OK
        card = None if reason_unusable(link) else await self._card(link, typed, is_late=is_late)
        shown: dict[str, object] = {
            "card": card,
            "decision": request.path_params["decision"],
            "labels": DECISION_LABELS,
            "base": request.url.path.rpartition("/")[0],
            "now": card.review.now if card else None,
        }
        return render_link_page(request, "action_link", link, shown, status)

    async def _card(self, link: AccessLink, typed: FormInput, *, is_late: bool) -> DecisionCard:
        ctx = RequestContext(services=self.access.dispatcher.services, caller=link_reader(link))
        review = await read_review(ctx, link.review_id or "")
        evidence = await read_evidence(ctx, [review.id])
        return decided_card(review, typed, too_late=is_late, evidence=evidence[review.id])
