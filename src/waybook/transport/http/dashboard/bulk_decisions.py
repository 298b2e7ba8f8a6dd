"""Approval of several reviews with one form; each review is decided and reported separately."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.inbox import read_review
from waybook.core.short_ids import IdKind
from waybook.errors import WaybookError
from waybook.transport.http.dashboard.inbox import MAX_CARDS
from waybook.transport.http.dashboard.page import (
    PageContext,
    SubmittedForm,
    error_message,
    is_partial_request,
)
from waybook.transport.http.html.forms import read_form

NOTHING_SELECTED = "Select at least one review."


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """Outcome of one review in a bulk approval."""

    name: str
    plan_id: str
    #: Reason why the review was not approved; empty if the review was approved.
    error: str = ""


@dataclass(frozen=True, slots=True)
class BulkApproval:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        """Approve the selected reviews one after the other, and list the outcome of each."""
        form = SubmittedForm(await read_form(request))
        selected = dict.fromkeys(
            value for value in form.fields.getlist("review") if isinstance(value, str)
        )
        # This call counts against the rate limit, which may refuse the request before any review is
        # decided.
        await self.page_context.request_context(request)
        outcomes = [await self._approve(request, item) for item in [*selected][:MAX_CARDS]]
        return await self.page_context.render_page(
            request,
            "selected",
            # A partial request always gets status 200, because the browser script shows only
            # replies without an error status.
            status_code=200 if outcomes or is_partial_request(request) else 400,
            outcomes=outcomes,
            error="" if outcomes else NOTHING_SELECTED,
            back=form.return_path,
        )

    async def _approve(self, request: Request, review_id: str) -> BulkOutcome:
        """Approve one review and return its outcome.

        An error is returned as the outcome, so that the other reviews are still decided.
        """
        named, plan_id = "Unknown review", ""
        try:
            call = await self.page_context.request_context(request)
            full_id = await self.page_context.full_id(request, IdKind.REVIEW, review_id)
            review = await read_review(call, full_id)
            named, plan_id = f"{review.plan_name}, step {review.step_order}", review.plan_id
            args = {"planId": plan_id, "reviewId": review.id, "decision": "approve"}
            answer = await self.page_context.call_tool(request, "submit_user_decision", args)
        except WaybookError as error:
            return BulkOutcome(name=named, plan_id=plan_id, error=error.message)
        error_text = error_message(answer) if answer.is_error else ""
        return BulkOutcome(name=named, plan_id=plan_id, error=error_text)
