"""get_plan_status: status and progress of a plan."""

import orjson

from waybook.app.operations.stalls import record_stall
from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.plans.status_results import shown_results
from waybook.app.request.arguments import DetailField, PlanIdField, ReadArguments
from waybook.app.request.reply import (
    DETAIL_RESULTS_BUDGET,
    MAX_BYTES_PER_CHARACTER,
    RESULTS_BUDGET,
    author_view,
    budget_view,
    completion_view,
    fit_reply,
    holder_view,
    next_call,
    origin_view,
    reply_limit,
    review_view,
    stalled_view,
    step_view,
    wait_call,
)
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool, output_schema
from waybook.json_values import Body, Json, non_empty
from waybook.plan.model import OnExhausted, Plan, PlanId, Review, Step
from waybook.plan.progress import newly_stalled
from waybook.plan.repeat import current_loops
from waybook.plan.states import CLOSED_PLAN, PlanStatus, StepStatus

LISTS = ("activeSteps", "completedSteps", "pendingSteps", "failedSteps", "stalledSteps")


class GetPlanStatus(ReadArguments):
    plan_id: PlanIdField
    detail: DetailField = False


async def get_plan_status(ctx: RequestContext, args: GetPlanStatus) -> Body:
    """Return the status of the plan. A new stall is recorded first."""
    limit = reply_limit(ctx.caller.channel, detail=args.detail)
    most = limit if args.detail else MAX_BYTES_PER_CHARACTER * RESULTS_BUDGET
    include = PlanInclude.RESULTS | PlanInclude.USAGE if args.detail else PlanInclude.RESULTS
    detail = await read_plan_detail(ctx, args.plan_id, include, most_results=most)
    if newly_stalled(detail.plan, now=detail.now, patience=detail.stall_threshold):
        loaded, _ = await record_stall(ctx, args.plan_id)
        detail = detail.with_plan(loaded)
    plan_id, rows = detail.plan.id, detail.results
    shown = await shown_results(ctx, plan_id, rows, most, None if args.detail else RESULTS_BUDGET)
    body = status_view(ctx, detail, shown)
    if not args.detail:
        detail_call = next_call("get_plan_status", "Get full lists.", planId=plan_id, detail=True)
        return fit_reply(body, LISTS, detail_call)
    body["usage"] = {**detail.plan.usage.as_reply(), "steps": _by_step(detail)}
    if detail.review is not None:
        body["openReview"] = _full_review(ctx, detail.review, plan_id)
    if len(orjson.dumps(body)) > limit:
        fewer = await shown_results(ctx, plan_id, rows, most, DETAIL_RESULTS_BUDGET)
        body["completedSteps"] = _completed(detail.plan, fewer)
    rest = next_call("get_research_context", "Read the plan in parts.", planId=plan_id)
    return fit_reply(body, LISTS, rest, limit)


def status_view(ctx: RequestContext, detail: PlanDetail, results: dict[str, Body]) -> Body:
    plan, progress = detail.plan, detail.progress
    current, review = detail.current_step, detail.review
    return {
        "planId": plan.id,
        "name": plan.name,
        **author_view(plan),
        **non_empty(copiedFrom=origin_view(plan)),
        "status": str(plan.status),
        "derivedStatus": str(detail.derived_status),
        "stalled": bool(detail.stalled),
        "progress": progress.percent,
        "counts": {"done": progress.done, "total": progress.total},
        "totalSteps": progress.total,
        **non_empty(sequential=plan.sequential or None),
        "currentStep": holder_view(current) if current else None,
        "activeSteps": _views(plan, StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT),
        "completedSteps": _completed(plan, results),
        "pendingSteps": [step_view(step) for step in plan.steps_with_status(StepStatus.PENDING)],
        "failedSteps": [
            step_view(step, attempt=step.attempt, reason=step.fail_reason)
            for step in plan.steps_with_status(StepStatus.FAILED)
        ],
        "stalledSteps": stalled_view(detail.stalled),
        **non_empty(loops=_loops(plan) or None),
        "openReview": review_view(review, plan.id, ctx.services.base_url) if review else None,
        "usage": plan.usage.as_reply(),
        **non_empty(budget=budget_view(plan)),
        "revision": plan.revision,
        "outcome": detail.outcome,
        "reason": plan.fail_reason,
        "next": _next(plan),
    }


def _full_review(ctx: RequestContext, review: Review, plan_id: PlanId) -> Body:
    """Return a review with the result that an approval accepts; the page has all of a long one."""
    body, result = review_view(review, plan_id, ctx.services.base_url), review.result_summary
    size = len(orjson.dumps(result))
    return {**body, **({} if size > RESULTS_BUDGET else non_empty(resultSummary=result))}


def _views(plan: Plan, *statuses: StepStatus) -> list[Json]:
    return [holder_view(step) for step in plan.steps_with_status(*statuses)]


def _loops(plan: Plan) -> list[Json]:
    """Return the current round of each loop of repeated steps."""
    orders = {step.id: step.order for step in plan.steps}
    return [
        non_empty(
            stepOrder=orders[loop.step_id],
            fromStepOrder=orders.get(loop.from_step_id or loop.step_id),
            condition=loop.expression,
            round=(loop.repeats or 0) + 1,
            of=(loop.max_repeats or 0) + 1,
            onExhausted=str(loop.on_exhausted or OnExhausted.CONTINUE),
            exhausted=loop.is_exhausted or None,
        )
        for loop in current_loops(plan)
    ]


def _completed(plan: Plan, results: dict[str, Body]) -> list[Json]:
    done = plan.steps_with_status(StepStatus.COMPLETED, StepStatus.SKIPPED)
    return [_completed_view(step, results.get(step.id, {})) for step in done]


def _completed_view(step: Step, result: Body) -> Json:
    fields = {"resultSummary": None, **result}
    confidence = fields.pop("confidence", None)
    return {**step_view(step), **fields, "confidence": confidence, **completion_view(step)}


def _by_step(detail: PlanDetail) -> list[Json]:
    orders = {str(step.id): step.order for step in detail.plan.steps}
    took = detail.usage
    last = len(orders) + 1
    return [
        non_empty(stepId=step_id, stepOrder=orders.get(step_id), **took[step_id].as_reply())
        for step_id in sorted(took, key=lambda id_: (orders.get(id_, last), id_))
    ]


def _next(plan: Plan) -> Json:
    if plan.status in CLOSED_PLAN:
        why = "The plan has ended. Read all its results."
        return next_call("get_research_context", why, planId=plan.id)
    if plan.status is PlanStatus.AWAITING_REVIEW:
        return wait_call(plan.id, "Wait: a person decides, not you.")
    return next_call("get_next_step", "Claim a step.", planId=plan.id)


TOOL = Tool(
    name="get_plan_status",
    title="Get the status of a plan",
    description="Progress of a plan: steps by status, their holders, stalled steps.",
    arguments=GetPlanStatus,
    output_schema=output_schema(status="string"),
    run=get_plan_status,
    reads_only=True,
)
