"""Page with the agents of an org, and page with the work of one agent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.agents import AgentActivity, AgentKey, list_agents, read_agent
from waybook.app.queries.audit import RUN, AuditEntry, entry_details, event_label
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.record_links import Link, item_link, subject_link
from waybook.transport.http.html.agent_urls import agent_url
from waybook.transport.http.html.forms import current_url_with, query_param
from waybook.transport.http.html.run_urls import from_segment

EVENT_STATUS: Final = {
    "step_started": "in_progress",
    "step_completed": "completed",
    "step_failed": "failed",
    "user_reviewed": "awaiting_input",
}
COMMENT_FIELDS: Final = ("reason", "error", "rationale", "feedback", "title", "skill")
MAX_COMMENT_LENGTH: Final = 200
DAYS_OFFERED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRow:
    at: datetime
    what: str
    status: str
    comment: str
    item: Link | None
    subject: Link


@dataclass(frozen=True, slots=True)
class ActivityDay:
    day: date
    rows: tuple[ActivityRow, ...]


@dataclass(frozen=True, slots=True)
class DayChoice:
    label: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class AgentsPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        behind = query_param(request, "behind")
        page = await list_agents(call, behind)
        return await self.page_context.render_page(
            request,
            "agents",
            agents=page.agents,
            held=page.held,
            first=behind is None,
            further=current_url_with(request, behind=page.next_cursor)
            if page.next_cursor
            else None,
            newest=current_url_with(request, behind=None),
        )

    async def show(self, request: Request) -> Response:
        call = await self.page_context.request_context(request)
        name = from_segment(request.path_params["agent"]).replace("\0", "")
        key = AgentKey(name, query_param(request, "session") or "")
        day, behind = _day(query_param(request, "day")), query_param(request, "behind")
        activity = await read_agent(call, key, day, behind)
        return await self.page_context.render_page(
            request,
            "agent",
            agent=activity.agent,
            held=activity.held,
            activity=activity,
            days=activity_days(activity),
            day=day,
            choices=day_choices(key, activity.now, day),
            first=behind is None,
            further=current_url_with(request, behind=activity.next_cursor)
            if activity.next_cursor
            else None,
            newest=current_url_with(request, behind=None),
        )


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"“{text}” is not a day; write it like 2030-01-31") from None


def activity_days(activity: AgentActivity) -> list[ActivityDay]:
    # A failed step has two audit entries, one for the step and one for the plan. Show only one.
    rows = [row for row, _ in groupby(activity_row(entry, activity) for entry in activity.entries)]
    return [
        ActivityDay(day, tuple(of_day))
        for day, of_day in groupby(rows, key=lambda row: row.at.astimezone(UTC).date())
    ]


def activity_row(entry: AuditEntry, activity: AgentActivity) -> ActivityRow:
    details = entry_details(entry)
    action = details.get("action")
    comment = next((str(details[name]) for name in COMMENT_FIELDS if details.get(name)), "")
    cut = len(comment) > MAX_COMMENT_LENGTH
    return ActivityRow(
        at=entry.at,
        what=event_label(
            entry.event,
            action if isinstance(action, str) else None,
            RUN if entry.subject == RUN else "plan",
        ),
        status="failed" if action == "fail_step" else EVENT_STATUS.get(entry.event, ""),
        comment=f"{comment[:MAX_COMMENT_LENGTH]}…" if cut else comment,
        item=item_link(entry, activity.names),
        subject=subject_link(entry, activity.names),
    )


def day_choices(key: AgentKey, now: datetime, day: date | None) -> Sequence[DayChoice]:
    today = now.astimezone(UTC).date()
    recent = [today - timedelta(days=n) for n in range(DAYS_OFFERED)]
    labels = ["Today", "Yesterday", *(f"{other:%a} {other.day}" for other in recent[2:])]
    return [
        DayChoice("All days", agent_url(*key), day is None),
        *(
            DayChoice(label, agent_url(*key, day=other.isoformat()), day == other)
            for label, other in zip(labels, recent, strict=True)
        ),
    ]
