"""list_active_plans: the plans that are not closed."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from waybook.app.request.arguments import ReadArguments
from waybook.app.request.outbox import review_url
from waybook.app.request.reply import format_time, next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool, output_schema
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json
from waybook.plan.progress import percent
from waybook.plan.states import PlanStatus
from waybook.store.driver.ids import is_id
from waybook.store.plans import load


class ListActivePlans(ReadArguments):
    limit: int = Field(default=20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=500)


async def list_active_plans(ctx: RequestContext, args: ListActivePlans) -> Body:
    """Return a page of the org's open plans, newest activity first, with the true total."""
    before, before_id = _read_cursor(args.cursor)
    total, rows = await ctx.read(
        load.SQL["count_open_plans"](),
        load.SQL["open_plans"](before=before, before_id=before_id, most=args.limit + 1),
    )
    page = rows[: args.limit]
    return {
        "plans": [_view(row, ctx.services.base_url) for row in page],
        "total": total[0][0],
        "nextCursor": _cursor(page[-1]) if len(rows) > args.limit else None,
        "next": _next(page),
    }


def _view(row: tuple[Any, ...], base_url: str) -> Json:
    plan_id, name, status, revision, updated_at, total, done, failed, in_progress, *made = row
    waits = status == PlanStatus.AWAITING_REVIEW
    return {
        "planId": plan_id,
        "name": name,
        "status": status,
        **({"reviewUrl": review_url(plan_id, base_url)} if waits else {}),
        "progress": percent(done, total),
        "counts": {"done": done, "total": total, "failed": failed, "inProgress": in_progress},
        "revision": revision,
        "lastActivityAt": format_time(updated_at),
        "createdBy": made[0],
        "createdAt": format_time(made[1]),
    }


def _next(page: list[tuple[Any, ...]]) -> Json:
    if not page:
        return next_call("create_research_plan", "no plan is open; write one")
    why = "read up on a plan before going on with it"
    return next_call("get_research_context", why, planId=page[0][0])


def _cursor(row: tuple[Any, ...]) -> str:
    text = json.dumps([row[4].isoformat(), row[0]])
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
    raise InvalidInput("cursor is not one this tool gave out; leave it away to start again")


TOOL = Tool(
    name="list_active_plans",
    title="List open plans",
    description="Open plans, newest first. Start here to resume.",
    arguments=ListActivePlans,
    output_schema=output_schema(plans="array"),
    run=list_active_plans,
    reads_only=True,
)
