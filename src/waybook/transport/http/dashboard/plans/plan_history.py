"""Time slider of a plan: the plan as it was after any of its audit entries."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.audit import step_title
from waybook.app.queries.plans.plan_history import (
    MAX_NAME_LENGTH,
    past_drawing,
    read_plan_history,
)
from waybook.app.request.layout_worker import DrawingJob
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.plans.plan_view import MAX_MAP_WIDTH
from waybook.transport.http.html.forms import query_param

#: Maximum number of steps in the list.
MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class PlanHistoryPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        ctx = await self.page_context.request_context(request)
        plan_id = request.path_params["plan_id"]
        past = await read_plan_history(
            ctx,
            plan_id,
            seq=entry_number(query_param(request, "seq")),
            at=entry_time(query_param(request, "at")),
        )
        svg = await self.page_context.picture(
            request, DrawingJob(past_drawing(past), MAX_MAP_WIDTH)
        )
        return await self.page_context.render_page(
            request,
            "plan_history",
            plan_id=plan_id,
            past=past,
            svg=Markup(svg),  # noqa: S704
            rows=[
                (step_id, step, step_title(step)[:MAX_NAME_LENGTH])
                for step_id, step in islice(past.steps.items(), MAX_ROWS)
            ],
        )


def entry_number(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= len("1000000000")):
        raise InvalidInput("seq must be the number of an audit entry, such as 12", argument="seq")
    return int(text)


def entry_time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        message = "at must be a time such as 2026-11-17T14:00, in UTC"
        raise InvalidInput(message, argument="at") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
