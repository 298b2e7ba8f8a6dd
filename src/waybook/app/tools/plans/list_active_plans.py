"""list_active_plans: the plans that are not closed."""

import base64
import json
from datetime import UTC, datetime

from pydantic import Field

from waybook.app.queries.plans.plan_list import PlanFilter, PlanOrder, PlanSummary, plan_summaries
from waybook.app.request.arguments import Id, ReadArguments
from waybook.app.request.page_urls import review_url
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool, output_schema
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time
from waybook.plan.states import PlanState
from waybook.store.driver.queries import is_id


class ListActivePlans(ReadArguments):
    limit: int = Field(default=20, ge=1, le=100, description="default 20")
    cursor: Id | None = Field(default=None, description="nextCursor of the last reply")


async def list_active_plans(ctx: RequestContext, args: ListActivePlans) -> Body:
    """Return a page of the org's open plans, latest activity first, and their total number."""
    before_at, before = _read_cursor(args.cursor)
    wanted = PlanFilter(order=PlanOrder.ACTIVITY, before=before, before_at=before_at)
    page = await plan_summaries(ctx, wanted, limit=args.limit)
    return {
        "plans": [_view(plan, ctx.services.base_url) for plan in page.plans],
        "total": page.total,
        **({"totalIsMinimum": True} if page.is_minimum() else {}),
        "nextCursor": _cursor(page.last) if page.last else None,
        "next": _next(page.plans),
    }


def _view(plan: PlanSummary, base_url: str) -> Json:
    waits = plan.state is PlanState.AWAITING_REVIEW
    progress = plan.progress
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.state),
        **({"reviewUrl": review_url(plan.id, base_url)} if waits else {}),
        "progress": progress.percent,
        "counts": {
            "done": progress.done,
            "total": progress.total,
            "failed": progress.failed,
            "inProgress": progress.in_progress,
        },
        "revision": plan.revision,
        "lastActivityAt": format_time(plan.updated_at),
        "createdBy": plan.created_by,
        "createdAt": format_time(plan.created_at),
    }


def _next(plans: tuple[PlanSummary, ...]) -> Json:
    if not plans:
        return next_call("create_research_plan", "No plan is open. Create one.")
    why = "Read the plan before you continue it."
    return next_call("get_research_context", why, planId=plans[0].id)


def _cursor(plan: PlanSummary) -> str:
    text = json.dumps([plan.updated_at.isoformat(), plan.id])
    return base64.urlsafe_b64encode(text.encode()).decode()


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


TOOL = Tool(
    name="list_active_plans",
    title="List open plans",
    description="List the open plans, newest first. Start here to resume work.",
    arguments=ListActivePlans,
    output_schema=output_schema(plans="array"),
    run=list_active_plans,
    reads_only=True,
)
