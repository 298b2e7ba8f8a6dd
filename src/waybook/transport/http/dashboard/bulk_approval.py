"""Approval of several reviews with one form, and the page with the outcomes."""

from typing import Any

from starlette.responses import Response

from waybook.errors import WaybookError
from waybook.transport.http.dashboard.inbox import (
    DECISION_TEXT,
    MAX_CARDS,
    read_reviewed,
    step_name,
)
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.jsonrpc import code_of


async def approve_selected(page: PageRequest) -> Response:
    """Approve several reviews, and list the outcome of each.

    If the form is sent again, nothing is approved again.
    """
    form = await page.form()
    selected = [value for value in form.fields.getlist("review") if isinstance(value, str)]
    # Check the rate limit before anything is decided.
    await page.context()
    outcomes = [await _approve(page, item) for item in [*dict.fromkeys(selected)][:MAX_CARDS]]
    return await page.render(
        "selected",
        status=200 if outcomes or page.is_partial else 400,
        outcomes=outcomes,
        back=form.return_path,
    )


async def _approve(page: PageRequest, review_id: str) -> dict[str, Any]:
    """Approve a review. Return what was decided, and the error code if it was refused."""
    outcome: dict[str, Any] = {"name": "Unknown review", "plan_id": "", "decided": "", "by": ""}
    try:
        review = await read_reviewed(page, review_id)
        outcome |= {"name": step_name(review), "plan_id": review.plan_id}
        args = {"planId": review.plan_id, "reviewId": review.id, "decision": "approve"}
        answer = await page.call_tool("submit_user_decision", args)
        review = await read_reviewed(page, review.id)
    except WaybookError as error:
        return {**outcome, "code": error.code}
    decided = DECISION_TEXT[review.decision] if review.decision else ""
    return {**outcome, "decided": decided, "by": review.decided_by, "code": code_of(answer)}
