"""request_user_review: pause a step for a person's decision."""

from pydantic import Field

from waybook.app.request.arguments import (
    AnyJson,
    LenientJson,
    Line,
    MutatingArguments,
    StepIdField,
    Text,
    check_result_size,
)
from waybook.app.request.locks.aggregates import LockedPlan, PlanProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.page_urls import review_url
from waybook.app.request.plan_access import plan_of_step
from waybook.app.request.reply import wait_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.json_values import Body
from waybook.plan.model import StepId
from waybook.plan.review import ReviewRequest, request_review


class RequestUserReview(MutatingArguments):
    step_id: StepIdField
    summary: Text = Field(description="what to decide")
    questions: LenientJson[list[Line]] | None = Field(
        default=None, max_length=50, description="questions for the person"
    )
    result_summary: AnyJson = Field(default=None, description="result of the step if approved")


async def request_user_review(ctx: RequestContext, args: RequestUserReview) -> ToolReply:
    """Pause the step and its plan until a person decides."""
    check_result_size(resultSummary=args.result_summary)
    request = ReviewRequest(
        summary=args.summary,
        questions=tuple(args.questions or ()),
        result_summary=args.result_summary,
    )
    step_id = StepId(args.step_id.lower())
    locked = LockedPlan(ctx, plan_id=await plan_of_step(ctx, step_id), step_id=step_id)

    async def decide() -> PlanProposal:
        decision = request_review(locked.plan, step_id, request, locked.decision_context)
        plan, review = decision.plan, decision.reply
        why = "Wait: a person decides, not you."
        body: Body = {
            "planId": plan.id,
            "reviewId": review.id,
            "stepId": review.step_id,
            "stepStatus": str(plan.step(review.step_id).status),
            "planStatus": str(plan.status),
            "reviewUrl": review_url(plan.id, ctx.services.base_url),
            "next": wait_call(plan.id, why),
        }
        return Proposal(decision, body)

    return await update(locked, decide)


TOOL = Tool(
    name="request_user_review",
    title="Ask a person",
    description=(
        "Ask a person to review your step; the plan pauses. Give them the reviewUrl; if they "
        "answer you, call submit_user_decision."
    ),
    arguments=RequestUserReview,
    output_schema=output_schema(reviewUrl="string"),
    run=request_user_review,
)
