"""Page with the agents of an org, and page with the work of one agent."""

from datetime import UTC, date, timedelta
from itertools import groupby
from typing import Any, Final

from starlette.responses import Response

from waybook.app.queries.agents import AgentActivity, AgentKey, list_agents, read_agent
from waybook.app.queries.audit import AuditEntry, entry_details
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.audit import entry_event, item_link, subject_link
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.layout import agent_url, from_segment

_EVENT_STATUS: Final = {
    "step_started": "in_progress",
    "step_completed": "completed",
    "step_failed": "failed",
    "user_reviewed": "awaiting_input",
}
_COMMENT_FIELDS: Final = ("reason", "error", "rationale", "feedback", "title", "skill")
_MAX_COMMENT_LENGTH: Final = 200
_DAYS_OFFERED: Final = 7


async def agent_list(page: PageRequest) -> Response:
    behind = page.query("behind")
    listed = await list_agents(await page.context(), behind)
    cursor = listed.next_cursor
    return await page.render(
        "agents",
        agents=listed.agents,
        held=listed.held,
        first=behind is None,
        further=page.url_with(behind=cursor) if cursor else None,
        newest=page.url_with(behind=None),
    )


async def agent_page(page: PageRequest) -> Response:
    name = from_segment(page.path("agent")).replace("\0", "")
    key = AgentKey(name, page.query("session") or "")
    text, day, behind = page.query("day"), None, page.query("behind")
    try:
        day = date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput(f"“{text}” is not a day; write it like 2030-01-31") from None
    activity = await read_agent(await page.context(), key, day, behind)
    # A failed step has two audit entries, one for the step and one for the plan. Show only one.
    rows = [row for row, _ in groupby(_activity_row(entry, activity) for entry in activity.entries)]
    recent = [activity.now.astimezone(UTC).date() - timedelta(days=n) for n in range(_DAYS_OFFERED)]
    labels = ["Today", "Yesterday", *(f"{other:%a} {other.day}" for other in recent[2:])]
    cursor = activity.next_cursor
    return await page.render(
        "agent",
        agent=activity.agent,
        held=activity.held,
        activity=activity,
        days=[
            (shown, [*of_day])
            for shown, of_day in groupby(rows, key=lambda row: row["at"].astimezone(UTC).date())
        ],
        day=day,
        choices=[
            ("All days", agent_url(*key), None),
            *(
                (label, agent_url(*key, day=other.isoformat()), other)
                for label, other in zip(labels, recent, strict=True)
            ),
        ],
        first=behind is None,
        further=page.url_with(behind=cursor) if cursor else None,
        newest=page.url_with(behind=None),
    )


def _activity_row(entry: AuditEntry, activity: AgentActivity) -> dict[str, Any]:
    details = entry_details(entry)
    action = details.get("action")
    comment = next((str(details[name]) for name in _COMMENT_FIELDS if details.get(name)), "")
    cut = len(comment) > _MAX_COMMENT_LENGTH
    return {
        "at": entry.at,
        "what": entry_event(entry),
        "status": "failed" if action == "fail_step" else _EVENT_STATUS.get(entry.event, ""),
        "comment": f"{comment[:_MAX_COMMENT_LENGTH]}…" if cut else comment,
        "item": item_link(entry, activity.names),
        "subject": subject_link(entry, activity.names),
    }
