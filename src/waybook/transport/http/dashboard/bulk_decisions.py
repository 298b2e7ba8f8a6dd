"""Approval of several reviews with one form.

The form redirects to a page with the outcomes, so that a reload repeats no approval.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.inbox import ReviewRecord, read_review
from waybook.core.short_ids import IdKind, short_id
from waybook.errors import WaybookError
from waybook.transport.errors import code_of
from waybook.transport.http.dashboard.cards import DECISION_TEXT
from waybook.transport.http.dashboard.inbox import MAX_CARDS
from waybook.transport.http.dashboard.page import PageContext, SubmittedForm, is_partial_request
from waybook.transport.http.html.forms import read_form, safe_return_path

MAX_ITEM_LENGTH: Final = 64
NOTHING_SELECTED: Final = "Select at least one review."
REASONS: Final = {
    "FORBIDDEN": "your scopes or the review policy do not allow you to decide it",
    "NOT_FOUND": "not found in this org",
    "PLAN_TERMINAL": "the plan is closed",
    "RATE_LIMITED": "too many requests; try again in a moment",
    "BUSY": "the server is busy; try again",
    "DISK_FULL": "the disk of the database is full; tell the operator",
    "UNAVAILABLE": "the database is not reachable; try again",
}
DEFAULT_REASON: Final = "refused; open the plan to see its status"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """Outcome of one review in a bulk approval."""

    name: str
    plan_id: str
    decided: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class BulkApproval:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            query = request.query_params
            back = safe_return_path(query.get("back"))
            return await self._page(request, _selected(query.getlist("review")), back)
        form = SubmittedForm(await read_form(request))
        selected = _selected(form.fields.getlist("review"))
        if not selected:
            return await self._page(request, [], form.return_path)
        # Check the rate limit before anything is decided.
        await self.page_context.request_context(request)
        outcomes = [await self._approve(request, item) for item in selected]
        shown = urlencode({"review": outcomes, "back": form.return_path}, doseq=True)
        return RedirectResponse(f"{request.url.path}?{shown}", HTTPStatus.SEE_OTHER)

    async def _approve(self, request: Request, review_id: str) -> str:
        """Approve one review. Return its id, followed by the error code if it was refused."""
        try:
            review = await self._read(request, review_id)
            args = {"planId": review.plan_id, "reviewId": review.id, "decision": "approve"}
            answer = await self.page_context.call_tool(request, "submit_user_decision", args)
        except WaybookError as error:
            return f"{review_id}:{error.code}"
        return (
            f"{short_id(review.id)}:{code_of(answer)}" if answer.is_error else short_id(review.id)
        )

    async def _read(self, request: Request, review_id: str) -> ReviewRecord:
        call = await self.page_context.request_context(request)
        return await read_review(
            call, await self.page_context.full_id(request, IdKind.REVIEW, review_id)
        )

    async def _page(self, request: Request, selected: Iterable[str], back: str) -> Response:
        outcomes = [await self._outcome(request, item) for item in selected]
        is_refused = not outcomes and request.method == "POST"
        return await self.page_context.render_page(
            request,
            "selected",
            # The browser script shows only replies with status 200.
            status_code=400 if is_refused and not is_partial_request(request) else 200,
            outcomes=outcomes,
            error="" if outcomes else NOTHING_SELECTED,
            back=back,
        )

    async def _outcome(self, request: Request, selected: str) -> BulkOutcome:
        review_id, _, code = selected.partition(":")
        try:
            review = await self._read(request, review_id)
        except WaybookError as failure:
            reason = REASONS.get(failure.code, DEFAULT_REASON)
            return BulkOutcome(name="Unknown review", plan_id="", error=reason)
        decided = DECISION_TEXT[review.decision] if review.decision else ""
        earlier = f"already decided: {review.decided_by} {decided}"
        error = earlier if decided else REASONS.get(code, DEFAULT_REASON)
        return BulkOutcome(
            name=f"{review.plan_name}, step {review.step_order}",
            plan_id=review.plan_id,
            decided=decided,
            error=error if code else "",
        )


def _selected(values: Iterable[object]) -> list[str]:
    texts = (value[:MAX_ITEM_LENGTH] for value in values if isinstance(value, str))
    return [*dict.fromkeys(texts)][:MAX_CARDS]
