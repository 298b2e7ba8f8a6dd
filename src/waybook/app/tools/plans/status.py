"""Tools that list the open plans, and return the status and progress of a plan."""

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, cast

import orjson

from waybook.app.operations.sweeps import record_stall
from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.work_list import ListOrder, PlanFilter, plan_summaries
from waybook.app.queries.workers import worker_views
from waybook.app.request import reply as replies
from waybook.app.request.arguments import (
    DetailField,
    Id,
    PlanIdField,
    ReadArguments,
    clamped,
    optional,
)
from waybook.app.request.caller import review_url
from waybook.app.request.reply import RESULTS_BUDGET, next_call, step_view
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool
from waybook.core.ids import is_id
from waybook.core.shown import word_of
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.model import CLOSED_PLAN, OnExhausted, Plan, PlanState, PlanStatus, StepStatus
from waybook.plan.ordering import steps_blocked_by_touches
from waybook.plan.progress import newly_stalled
from waybook.plan.repeat import current_loops
from waybook.store.driver.queries import Row
from waybook.store.plans import load

LISTS = ("activeSteps", "completedSteps", "pendingSteps", "failedSteps", "stalledSteps")


class _GetPlanStatus(ReadArguments):
    plan_id: PlanIdField
    detail: DetailField = False


@Tool(
    title="Get the status of a plan",
    description="Progress of a plan: steps by status, their holders, stalled steps.",
    reply={"status": "string"},
    reads_only=True,
)
async def get_plan_status(ctx: RequestContext, args: _GetPlanStatus) -> Body:
    """Return the status of the plan. If a step has stalled since the last check, record this."""
    limit = replies.reply_limit(ctx.caller.channel, detail=args.detail)
    most = limit if args.detail else replies.MAX_BYTES_PER_CHARACTER * RESULTS_BUDGET
    include = PlanInclude.RESULTS | PlanInclude.WORKERS
    include |= PlanInclude.USAGE if args.detail else PlanInclude.NONE
    detail = await read_plan_detail(ctx, args.plan_id, include, most_results=most)
    if newly_stalled(detail.plan, now=detail.now, patience=detail.stall_threshold):
        loaded, _ = await record_stall(ctx, args.plan_id)
        detail = detail.with_plan(loaded)
    plan_id, rows = detail.plan.id, detail.results
    shown = await _shown_results(ctx, plan_id, rows, most, None if args.detail else RESULTS_BUDGET)
    body = _status_view(ctx, detail, shown)
    if not args.detail:
        detail_call = next_call("get_plan_status", "Get full lists.", planId=plan_id, detail=True)
        return replies.fit_reply(body, LISTS, detail_call)
    orders = {str(step.id): step.order for step in detail.plan.steps}
    usage_by_step: list[Json] = [
        non_empty(stepId=step_id, stepOrder=orders.get(step_id), **usage.as_reply())
        for step_id, usage in sorted(
            detail.usage.items(), key=lambda item: (orders.get(item[0], len(orders) + 1), item[0])
        )
    ]
    body["usage"] = {**detail.plan.usage.as_reply(), "steps": usage_by_step}
    if detail.review is not None and detail.review.result_summary is not None:
        # Show the result that a person accepts by approving the step. A long result is shown only
        # on the plan page.
        result = detail.review.result_summary
        if len(orjson.dumps(result)) <= RESULTS_BUDGET:
            body["openReview"] = {**cast("Body", body["openReview"]), "resultSummary": result}
    if len(orjson.dumps(body)) > limit:
        fewer = await _shown_results(ctx, plan_id, rows, most, replies.DETAIL_RESULTS_BUDGET)
        body["completedSteps"] = _completed(detail.plan, fewer)
    rest = next_call("get_research_context", "Read the plan in parts.", planId=plan_id)
    return replies.fit_reply(body, LISTS, rest, limit)


def _status_view(ctx: RequestContext, detail: PlanDetail, results: dict[str, Body]) -> Body:
    plan, progress = detail.plan, detail.progress
    current, orders = detail.current_step, {step.id: step.order for step in plan.steps}
    loops: list[Json] = [
        non_empty(
            stepOrder=orders[loop.step_id],
            fromStepOrder=orders.get(loop.from_step_id or loop.step_id),
            condition=loop.expression,
            # The first execution counts as 1.
            round=(loop.repeats or 0) + 1,
            of=(loop.max_repeats or 0) + 1,
            onExhausted=str(loop.on_exhausted or OnExhausted.CONTINUE),
            exhausted=loop.is_exhausted or None,
        )
        for loop in current_loops(plan)
    ]
    blocked = {step.id: replies.place_view(other) for step, other in steps_blocked_by_touches(plan)}
    following = next_call("get_next_step", "Claim a step.", planId=plan.id)
    if plan.status in CLOSED_PLAN:
        why = "The plan has ended. Read all its results."
        following = next_call("get_research_context", why, planId=plan.id)
    elif plan.status is PlanStatus.AWAITING_REVIEW:
        following = replies.wait_for_review_call(plan.id)
    return {
        "planId": plan.id,
        "name": plan.name,
        **replies.author_view(plan),
        **non_empty(copiedFrom=replies.origin_view(plan)),
        "status": str(plan.status),
        "state": word_of(detail.shown),
        "derivedStatus": str(detail.derived_status),
        "stalled": bool(detail.stalled),
        "progress": progress.percent,
        "counts": {"done": progress.done, "total": progress.total},
        "totalSteps": progress.total,
        **non_empty(sequential=plan.sequential or None),
        "currentStep": replies.holder_view(current) if current else None,
        "activeSteps": [
            replies.holder_view(step)
            for step in plan.steps_with_status(StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT)
        ],
        "completedSteps": _completed(plan, results),
        "pendingSteps": [
            step_view(step, waitsFor=blocked.get(step.id))
            for step in plan.steps_with_status(StepStatus.PENDING)
        ],
        "failedSteps": [
            step_view(step, attempt=step.attempt, reason=step.fail_reason)
            for step in plan.steps_with_status(StepStatus.FAILED)
        ],
        "stalledSteps": replies.stalled_view(detail.stalled),
        **non_empty(loops=loops or None, workers=worker_views(detail.workers)),
        "openReview": replies.review_view(detail.review, plan.id, ctx.services.base_url),
        "usage": plan.usage.as_reply(),
        **non_empty(budget=replies.budget_view(plan)),
        "revision": plan.revision,
        "outcome": detail.outcome,
        "reason": plan.fail_reason,
        "next": following,
    }


def _completed(plan: Plan, results: dict[str, Body]) -> list[Json]:
    views: list[Json] = []
    for step in plan.steps_with_status(StepStatus.COMPLETED, StepStatus.SKIPPED):
        result = {"resultSummary": None, **results.get(step.id, {})}
        confidence = result.pop("confidence", None)
        completion = replies.completion_view(step)
        views.append({**step_view(step), **result, "confidence": confidence, **completion})
    return views


async def _shown_results(
    ctx: RequestContext, plan_id: str, rows: Sequence[Row], most: int, budget: int | None
) -> dict[str, Body]:
    """Return the result and confidence of each step. Results are cut to fit into `budget`."""
    if sum(row.octets for row in rows) <= most:
        results: dict[str, Json] = {row.step_id: row.result for row in rows}
        shown = (
            {step_id: Body(resultSummary=value) for step_id, value in results.items()}
            if budget is None
            else replies.truncate_results(results, budget=budget)
        )
    else:
        sizes = {row.step_id: row.octets for row in rows}
        share = replies.result_share([*sizes.values()], budget or replies.DETAIL_RESULTS_BUDGET)
        most_bytes = replies.MAX_BYTES_PER_CHARACTER * share + 2
        (prefixes,) = await ctx.read(load.SQL["results_cut"](plan_id=plan_id, most=most_bytes))
        shown = {
            row.step_id: _beginning(row.step_id, row.beginning, sizes[row.step_id], share)
            for row in prefixes
            if row.step_id in sizes
        }
    return {
        row.step_id: {**shown.get(row.step_id, {}), "confidence": row.confidence} for row in rows
    }


def _beginning(step_id: str, text: str | None, size: int, share: int) -> Body:
    """Return a result or, if the result is long, its beginning and the length of the rest."""
    if text is None:
        return {"resultSummary": None}
    if size <= share or (len(text) <= share and len(text.encode()) >= size):
        return {"resultSummary": orjson.loads(text)}
    if not text.startswith('"'):
        piece = text[:share]
        return replies.cut_result(step_id, piece, size - len(piece.encode()))
    piece = decode_beginning(text)[:share]
    return replies.cut_result(step_id, piece, size - len(orjson.dumps(piece)))


def decode_beginning(text: str) -> str:
    r"""Return the decoded beginning of a truncated JSON string.

    >>> decode_beginning('"It rai'), decode_beginning(r'"a\n\u00')
    ('It rai', 'a\n')
    """
    # The text may end within an escape sequence, or between the halves of a surrogate pair.
    for end in range(len(text), 0, -1):
        with suppress(orjson.JSONDecodeError):
            return str(orjson.loads(f'{text[:end]}"'))
    return ""


class _ListActivePlans(ReadArguments):
    limit: Annotated[int, clamped(1, 100)] = optional("default 20", default=20)
    cursor: Id | None = optional("nextCursor of the last reply")


@Tool(
    title="List open plans",
    description="List the open plans, newest first. Start here to resume work.",
    reply={"plans": "array"},
    reads_only=True,
)
async def list_active_plans(ctx: RequestContext, args: _ListActivePlans) -> Body:
    """Return a page of the org's open plans, latest activity first, and their total number."""
    before_at, before = _read_cursor(args.cursor)
    wanted = PlanFilter(order=ListOrder.ACTIVITY, before=before, before_at=before_at)
    page = await plan_summaries(ctx, wanted, limit=args.limit)
    cursor = None
    if page.last:
        text = json.dumps([page.last.updated_at.isoformat(), page.last.id])
        cursor = base64.urlsafe_b64encode(text.encode()).decode()
    following = next_call("create_research_plan", "No plan is open. Create one.")
    if page.plans:
        why = "Read the plan before you continue it."
        following = next_call("get_research_context", why, planId=page.plans[0].id)
    return {
        "plans": [
            {
                "planId": plan.id,
                "name": plan.name,
                "status": str(plan.state),
                "state": word_of(plan.shown),
                **non_empty(
                    reviewUrl=review_url(plan.id, ctx.services.base_url)
                    if plan.state is PlanState.AWAITING_REVIEW
                    else None
                ),
                "progress": plan.progress.percent,
                "counts": {
                    "done": plan.progress.done,
                    "total": plan.progress.total,
                    "failed": plan.progress.failed,
                    "inProgress": plan.progress.in_progress,
                },
                "revision": plan.revision,
                "lastActivityAt": format_time(plan.updated_at),
                "createdBy": plan.created_by,
                "createdAt": format_time(plan.created_at),
            }
            for plan in page.plans
        ],
        "total": page.total,
        **({"totalIsMinimum": True} if page.is_minimum() else {}),
        "nextCursor": cursor,
        "next": following,
    }


def _read_cursor(cursor: str | None) -> tuple[datetime | None, str | None]:
    if cursor is None:
        return None, None
    try:
        at, plan_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if is_id(plan_id):
            return datetime.fromisoformat(at).astimezone(UTC), plan_id
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        pass
    raise NotFound(
        "there is no page with this cursor",
        next_call=NextCall("list_active_plans", {}, "Start again with the first page."),
    )
