"""get_plan_status: status and progress of a plan."""

from datetime import datetime, timedelta
from typing import Any

import orjson

from waybook.app.operations.stalls import record_stall
from waybook.app.queries.status_results import shown_results
from waybook.app.request.arguments import Id, ReadArguments
from waybook.app.request.lookups import id_or_nil
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
    non_empty,
    progress_view,
    reply_limit,
    review_view,
    step_view,
)
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool, output_schema
from waybook.json_values import Body, Json
from waybook.plan.model import Plan, Step
from waybook.plan.progress import current_step, plan_outcome
from waybook.plan.review import open_review
from waybook.plan.stalls import newly_stalled, stalled_steps, whole_minutes
from waybook.plan.states import CLOSED_PLAN, PlanStatus, StepStatus, derive_plan_status
from waybook.store import calls
from waybook.store.plans import load
from waybook.store.plans.load import LoadedPlan, PlanRequest

#: Lists of steps in a reply.
LISTS = ("activeSteps", "completedSteps", "pendingSteps", "failedSteps", "stalledSteps")


class GetPlanStatus(ReadArguments):
    plan_id: Id
    detail: bool = False


async def get_plan_status(ctx: RequestContext, args: GetPlanStatus) -> Body:
    """Return the status of the plan; record a stall that is not recorded yet."""
    wanted = PlanRequest(plan_id=id_or_nil(args.plan_id))
    limit = reply_limit(ctx.caller.channel, detail=args.detail)
    most = limit if args.detail else MAX_BYTES_PER_CHARACTER * RESULTS_BUDGET
    extra_statements = [calls.steps_statement(wanted.plan_id)] if args.detail else []
    loaded, (rows, *took) = await ctx.load_plan(
        wanted, load.results_within_statement(wanted.plan_id, most), *extra_statements
    )
    if newly_stalled(loaded.plan, now=loaded.now, patience=ctx.services.stall_threshold):
        loaded, _ = await record_stall(ctx, args.plan_id)
    plan_id = loaded.plan.id
    shown = await shown_results(ctx, plan_id, rows, most, None if args.detail else RESULTS_BUDGET)
    body = status_view(ctx, loaded, shown)
    if not args.detail:
        detail_call = next_call("get_plan_status", "the whole lists", planId=plan_id, detail=True)
        return fit_reply(body, LISTS, detail_call)
    by_step: list[Json] = _by_step(loaded.plan, took[0])
    body["usage"] = {**loaded.plan.usage.as_reply(), "steps": by_step}
    if len(orjson.dumps(body)) > limit:
        fewer = await shown_results(ctx, plan_id, rows, most, DETAIL_RESULTS_BUDGET)
        body["completedSteps"] = _completed(loaded.plan, fewer)
    rest = next_call("get_research_context", "the plan by parts", planId=plan_id)
    return fit_reply(body, LISTS, rest, limit)


def status_view(
    ctx: RequestContext,
    loaded: LoadedPlan,
    results: dict[str, Body],
) -> Body:
    """Return the status of a plan: stored and derived status, steps by kind, stalled steps."""
    plan = loaded.plan
    progress = progress_view(plan)
    current = current_step(plan)
    stalled = _stalled(plan, loaded.now, ctx.services.stall_threshold)
    review = open_review(plan)
    return {
        "planId": plan.id,
        "name": plan.name,
        **author_view(plan),
        "status": str(plan.status),
        "derivedStatus": str(derive_plan_status(plan.statuses())),
        "stalled": bool(stalled),
        "progress": progress["percent"],
        "counts": {"done": progress["done"], "total": progress["total"]},
        "totalSteps": len(plan.steps),
        "currentStep": holder_view(current) if current else None,
        "activeSteps": _views(plan, StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT),
        "completedSteps": _completed(plan, results),
        "pendingSteps": [step_view(step) for step in plan.steps_with_status(StepStatus.PENDING)],
        "failedSteps": [
            step_view(step, attempt=step.attempt, reason=step.fail_reason)
            for step in plan.steps_with_status(StepStatus.FAILED)
        ],
        "stalledSteps": stalled,
        "openReview": review_view(review, plan.id, ctx.services.base_url) if review else None,
        "usage": plan.usage.as_reply(),
        **non_empty(budget=budget_view(plan)),
        "revision": plan.revision,
        "outcome": plan_outcome(plan.status, plan.statuses()),
        "reason": plan.fail_reason,
        "next": _next(plan),
    }


def _views(plan: Plan, *statuses: StepStatus) -> list[Json]:
    return [holder_view(step) for step in plan.steps_with_status(*statuses)]


def _stalled(plan: Plan, now: datetime, patience: timedelta) -> list[Json]:
    return [
        {"stepId": step.id, "stepOrder": step.order, "minutes": whole_minutes(gap)}
        for step, gap in stalled_steps(plan, now=now, patience=patience)
    ]


def _completed(plan: Plan, results: dict[str, Body]) -> list[Json]:
    done = plan.steps_with_status(StepStatus.COMPLETED, StepStatus.SKIPPED)
    return [_completed_view(step, results.get(step.id, {})) for step in done]


def _completed_view(step: Step, result: Body) -> Json:
    fields = {"resultSummary": None, **result}
    confidence = fields.pop("confidence", None)
    return {**step_view(step), **fields, "confidence": confidence, **completion_view(step)}


def _by_step(plan: Plan, rows: list[tuple[Any, ...]]) -> list[Json]:
    """Return the usage of each step, in plan order; steps no longer in the plan come last."""
    orders = {str(step.id): step.order for step in plan.steps}
    took = calls.read_steps(rows)
    last = len(orders) + 1
    return [
        non_empty(stepId=step_id, stepOrder=orders.get(step_id), **took[step_id].as_reply())
        for step_id in sorted(took, key=lambda id_: (orders.get(id_, last), id_))
    ]


def _next(plan: Plan) -> Json:
    if plan.status in CLOSED_PLAN:
        why = "the plan is over; this is everything it produced"
        return next_call("get_research_context", why, planId=plan.id)
    if plan.status is PlanStatus.AWAITING_REVIEW:
        why = "once the person has decided, pass it on"
        return next_call("submit_user_decision", why, planId=plan.id)
    return next_call("get_next_step", "take a step", planId=plan.id)


TOOL = Tool(
    name="get_plan_status",
    title="See where a plan stands",
    description="Progress, steps by status, who holds what, stalls.",
    arguments=GetPlanStatus,
    output_schema=output_schema(status="string"),
    run=get_plan_status,
    reads_only=True,
)
