"""Approval of several reviews with one form, and the page with the outcomes."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from waybook.errors import WaybookError
from waybook.transport.http.dashboard.inbox import DECISION_TEXT, MAX_CARDS, Card, read_reviewed
from waybook.transport.http.dashboard.page import PageRequest, redirect
from waybook.transport.http.html.layout import safe_return_path
from waybook.transport.jsonrpc import code_of

_MAX_ITEM_LENGTH: Final = 64


async def approve_selected(page: PageRequest) -> Response:
    """Approve several reviews with one form.

    The response redirects to a page with the outcomes, so that a reload repeats no approval.
    """
    query = page.request.query_params
    selected, back = _selected(query.getlist("review")), safe_return_path(query.get("back"))
    if page.is_post:
        form = await page.form()
        selected, back = _selected(form.fields.getlist("review")), form.return_path
        if selected:
            # Check the rate limit before anything is decided.
            await page.context()
            approved = [await _approve(page, item) for item in selected]
            shown = urlencode({"review": approved, "back": back}, doseq=True)
            return redirect(f"{page.request.url.path}?{shown}")
    outcomes = [await _outcome(page, item) for item in selected]
    is_refused = page.is_post and not page.is_partial
    return await page.render(
        "selected",
        status=400 if is_refused else 200,
        outcomes=outcomes,
        error="" if outcomes else "Select at least one review.",
        back=back,
    )


def _selected(values: Iterable[object]) -> list[str]:
    texts = (value[:_MAX_ITEM_LENGTH] for value in values if isinstance(value, str))
    return [*dict.fromkeys(texts)][:MAX_CARDS]


async def _approve(page: PageRequest, review_id: str) -> str:
    """Approve one review. Return its id, followed by the error code if it was refused."""
    try:
        review = await read_reviewed(page, review_id)
        args = {"planId": review.plan_id, "reviewId": review.id, "decision": "approve"}
        answer = await page.call_tool("submit_user_decision", args)
    except WaybookError as error:
        return f"{review_id}:{error.code}"
    return f"{review.id}:{code_of(answer)}" if answer.is_error else review.id


async def _outcome(page: PageRequest, selected: str) -> Card:
    review_id, _, code = selected.partition(":")
    try:
        review = await read_reviewed(page, review_id)
    except WaybookError as failure:
        return {"name": "Unknown review", "plan_id": "", "decided": "", "code": failure.code}
    return {
        "name": f"{review.plan_name}, step {review.step_order}",
        "plan_id": review.plan_id,
        "decided": DECISION_TEXT[review.decision] if review.decision else "",
        "by": review.decided_by,
        "code": code,
    }
