"""Outcome of a review: the reply that the requester gets once a person has decided."""

from typing import Final

from waybook.app.request.caller import ReadableReview
from waybook.app.request.page_urls import review_url
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, id_or_nil, not_found
from waybook.core.decision_context import DecisionContext, ReviewPolicy, require_decider
from waybook.errors import Forbidden, NextCall
from waybook.json_values import Body, format_time, non_empty
from waybook.plan.model import DecisionKind
from waybook.plan.states import StepStatus
from waybook.store.accounts import accounts
from waybook.store.driver.queries import new_id
from waybook.store.plans import lists
from waybook.store.plans.lists import ReviewOutcomeRow

DECIDED_STATUS: Final = {
    DecisionKind.APPROVE: StepStatus.COMPLETED,
    DecisionKind.MODIFY: StepStatus.IN_PROGRESS,
    DecisionKind.SKIP: StepStatus.SKIPPED,
    DecisionKind.REJECT: StepStatus.FAILED,
}
REASONS: Final = {
    DecisionKind.APPROVE: "Claim the next step.",
    DecisionKind.MODIFY: "Claim the step again; its instructions have the feedback.",
    DecisionKind.SKIP: "Claim the next step.",
    DecisionKind.REJECT: "See how the plan ended.",
}


async def read_review_outcome(ctx: RequestContext, review_id: str) -> ReadableReview:
    statement = lists.SQL["review_outcome"](review_id=id_or_nil(review_id))
    rows, policy_rows = await ctx.read(statement, accounts.policy_statement())
    if not rows:
        raise not_found("review")
    row: ReviewOutcomeRow = rows[0]
    return ReadableReview(
        summary=row.summary,
        questions=tuple(row.questions),
        requested_at=row.requested_at,
        ended_at=row.decided_at or row.plan_ended_at,
        is_decided=row.decision is not None,
        may_decide=_may_decide(ctx, row, accounts.read_policy(policy_rows)),
        reply={**review_reply(row, ctx.services.base_url)},
    )


def _may_decide(ctx: RequestContext, review: ReviewOutcomeRow, policy: ReviewPolicy) -> bool:
    moment = DecisionContext(
        now=review.requested_at, actor=ctx.caller.actor(), new_id=new_id, policy=policy
    )
    look = NextCall("get_plan_status", {"planId": review.plan_id}, "See the review.")
    try:
        require_decider(moment, requested_as=review.requested_as, look=look)
    except Forbidden:
        return False
    return True


def review_reply(review: ReviewOutcomeRow, base_url: str) -> Body:
    """Return the reply about a review. Once the review is decided, the reply never changes."""
    named: Body = {
        "planId": review.plan_id,
        "reviewId": review.id,
        "stepId": review.step_id,
        "reviewUrl": review_url(review.plan_id, base_url),
    }
    if review.decision is None:
        return named
    decision = DecisionKind(review.decision)
    return {
        **named,
        "stepStatus": str(DECIDED_STATUS[decision]),
        "decision": str(decision),
        **non_empty(
            feedback=review.feedback,
            decidedBy=review.decided_by,
            decidedAt=format_time(review.decided_at),
        ),
        "next": next_call("get_next_step", REASONS[decision], planId=review.plan_id),
    }
