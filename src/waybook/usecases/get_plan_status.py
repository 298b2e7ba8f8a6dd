"""get_plan_status: where a plan stands."""

from datetime import datetime, timedelta
from typing import Any

import orjson

from waybook.plan.derive import derive_plan_status
from waybook.plan.model import Plan, Step
from waybook.plan.progress import current_step, outcome
from waybook.plan.review import open_review
from waybook.plan.stalls import detect_stall, newly_stalled, stalled_steps, whole_minutes
from waybook.plan.states import CLOSED_PLAN, PlanStatus, StepStatus
from waybook.record.moment import Json
from waybook.store import plans, usage
from waybook.store.plans import LoadedPlan, Wanted
from waybook.usecases.arguments import Id, Reading
from waybook.usecases.call import Body, Call, known
from waybook.usecases.schemas import output_schema
from waybook.usecases.status_results import shown_results
from waybook.usecases.tool import Tool
from waybook.usecases.views import (
    DETAIL_RESULTS_BUDGET,
    MAX_BYTES_PER_CHARACTER,
    RESULTS_BUDGET,
    author_view,
    budget_view,
    completion_view,
    following,
    holder_view,
    progress_view,
    reply_limit,
    review_view,
    step_view,
    told,
    within_reply,
)

#: The lists of steps in a reply.
LISTS = ("activeSteps", "completedSteps", "pendingSteps", "failedSteps", "stalledSteps")


class GetPlanStatus(Reading):
    plan_id: Id
    detail: bool = False


async def get_plan_status(call: Call, asked: GetPlanStatus) -> Body:
    """Look at the plan; a stall nobody has noticed yet is noted on the way."""
    wanted = Wanted(plan_id=known(asked.plan_id))
    limit = reply_limit(call.caller.channel, detail=asked.detail)
    most = limit if asked.detail else MAX_BYTES_PER_CHARACTER * RESULTS_BUDGET
    beside = [usage.steps_statement(wanted.plan_id)] if asked.detail else []
    loaded, (rows, *took) = await call.look(
        wanted, plans.results_within_statement(wanted.plan_id, most), *beside
    )
    if newly_stalled(loaded.plan, now=loaded.now, patience=call.house.patience):
        loaded, _ = await note_stall(call, asked.plan_id)
    plan_id = loaded.plan.id
    shown = await shown_results(call, plan_id, rows, most, None if asked.detail else RESULTS_BUDGET)
    body = status_view(call, loaded, shown)
    if not asked.detail:
        whole = following("get_plan_status", "the whole lists", planId=plan_id, detail=True)
        return within_reply(body, LISTS, whole)
    by_step: list[Json] = _by_step(loaded.plan, took[0])
    body["usage"] = {**loaded.plan.usage.as_told(), "steps": by_step}
    if len(orjson.dumps(body)) > limit:
        fewer = await shown_results(call, plan_id, rows, most, DETAIL_RESULTS_BUDGET)
        body["completedSteps"] = _completed(loaded.plan, fewer)
    rest = following("get_research_context", "the plan by parts", planId=plan_id)
    return within_reply(body, LISTS, rest, limit)


async def note_stall(call: Call, plan_id: str) -> tuple[LoadedPlan, bool]:
    """Move a stalled plan to stalled, under its lock, unless somebody was faster.

    Returns the plan as it is then, and whether it was we who moved it.
    """
    async with call.locked(plan_id=plan_id) as held:
        decision = detect_stall(held.plan, held.moment, call.house.patience)
        await held.write(decision, {})
        loaded = LoadedPlan(plan=decision.plan, now=held.loaded.now, head=held.loaded.head)
        return loaded, decision.reply


def status_view(
    call: Call,
    loaded: LoadedPlan,
    results: dict[str, Body],
) -> Body:
    """The plan's standing: stored and derived status, the steps by kind, what is stalled."""
    plan = loaded.plan
    progress = progress_view(plan)
    current = current_step(plan)
    stalled = _stalled(plan, loaded.now, call.house.patience)
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
        "pendingSteps": [step_view(step) for step in plan.having(StepStatus.PENDING)],
        "failedSteps": [
            step_view(step, attempt=step.attempt, reason=step.fail_reason)
            for step in plan.having(StepStatus.FAILED)
        ],
        "stalledSteps": stalled,
        "openReview": review_view(review, plan.id, call.house.base_url) if review else None,
        "usage": plan.usage.as_told(),
        **told(budget=budget_view(plan)),
        "revision": plan.revision,
        "outcome": outcome(plan.status, plan.statuses()),
        "reason": plan.fail_reason,
        "next": _next(plan),
    }


def _views(plan: Plan, *statuses: StepStatus) -> list[Json]:
    return [holder_view(step) for step in plan.having(*statuses)]


def _stalled(plan: Plan, now: datetime, patience: timedelta) -> list[Json]:
    return [
        {"stepId": step.id, "stepOrder": step.order, "minutes": whole_minutes(gap)}
        for step, gap in stalled_steps(plan, now=now, patience=patience)
    ]


def _completed(plan: Plan, results: dict[str, Body]) -> list[Json]:
    done = plan.having(StepStatus.COMPLETED, StepStatus.SKIPPED)
    return [_completed_view(step, results.get(step.id, {})) for step in done]


def _completed_view(step: Step, result: Body) -> Json:
    kept = {"resultSummary": None, **result}
    confidence = kept.pop("confidence", None)
    return {**step_view(step), **kept, "confidence": confidence, **completion_view(step)}


def _by_step(plan: Plan, rows: list[tuple[Any, ...]]) -> list[Json]:
    """What each step took, in plan order; last those that are not in the plan any more."""
    orders = {str(step.id): step.order for step in plan.steps}
    took = usage.read_steps(rows)
    last = len(orders) + 1
    return [
        told(stepId=step_id, stepOrder=orders.get(step_id), **took[step_id].as_told())
        for step_id in sorted(took, key=lambda one: (orders.get(one, last), one))
    ]


def _next(plan: Plan) -> Json:
    if plan.status in CLOSED_PLAN:
        why = "the plan is over; this is everything it produced"
        return following("get_research_context", why, planId=plan.id)
    if plan.status is PlanStatus.AWAITING_REVIEW:
        why = "once the person has decided, pass it on"
        return following("submit_user_decision", why, planId=plan.id)
    return following("get_next_step", "take a step", planId=plan.id)


TOOL = Tool(
    name="get_plan_status",
    title="See where a plan stands",
    description="Progress, steps by status, who holds what, stalls.",
    arguments=GetPlanStatus,
    output_schema=output_schema(status="string"),
    run=get_plan_status,
    reads_only=True,
)
