"""Pages of agents: who works on what, the timeline of all agents, and one agent."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from waybook.app.queries.agents import (
    AgentActivity,
    AgentKey,
    AgentRow,
    Names,
    Row,
    facts_of_agent,
    item_of,
    list_agents,
    read_agent,
    read_work,
)
from waybook.app.queries.audit import AuditEntry, entry_details
from waybook.core.actions import Facts
from waybook.core.shown import Shown
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.audit import entry_event
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.charts import Period, Span
from waybook.transport.http.html.layout import from_segment

_EVENT_STATUS: Final = {
    "step_started": "in_progress",
    "step_completed": "completed",
    "step_failed": "failed",
    "user_reviewed": "awaiting_input",
}
_COMMENT_FIELDS: Final = ("reason", "error", "rationale", "feedback", "title", "skill")
_MAX_COMMENT_LENGTH: Final = 200
_DAYS_OFFERED: Final = 7


#: Offered lengths of the lanes.
_WINDOWS: Final = {"6h": timedelta(hours=6), "24h": timedelta(hours=24), "7d": timedelta(days=7)}
_MAX_LANES: Final = 12
_MAX_TIMELINE_LANES: Final = 40
_SLICES: Final = 12
_DAYS: Final = 30
_ENDINGS: Final = {"step_completed": "done", "step_failed": "fail", "user_reviewed": "done"}


class Lane(NamedTuple):
    """An agent with its work in a period, for the chart and the words beside it."""

    agent: AgentRow
    held: Sequence[Row]
    spans: Sequence[Span]
    facts: Facts
    #: Results of the last 30 days, by the text that the chart shows on hover.
    days: Mapping[str, int]

    @property
    def is_silent(self) -> bool:
        return self.facts.state is Shown.STALLED


async def agent_list(page: PageRequest) -> Response:
    ctx = await page.context()
    agents, held, cursor, workers = await list_agents(ctx, page.query("behind"))
    lanes, period = await _lanes(page, agents, held, "6h")
    return await page.render(
        "agents",
        agents=agents,
        held=held,
        workers=workers,
        lanes=[lane for lane in lanes if lane.spans][:_MAX_LANES],
        working=sum(bool(lane.held) for lane in lanes),
        silent=[lane for lane in lanes if lane.is_silent],
        period=period,
        ends=_ends(lanes, period),
        days={lane.agent.key: lane.days for lane in lanes},
        **_window_links(page, "6h"),
        **page.list_links("behind", cursor),
    )


async def timeline_page(page: PageRequest) -> Response:
    agents, held, *_ = await list_agents(await page.context())
    lanes, period = await _lanes(page, agents, held, "24h")
    busy = [lane for lane in lanes if lane.spans]
    return await page.render(
        "timeline",
        lanes=busy[:_MAX_TIMELINE_LANES],
        omitted=len(busy[_MAX_TIMELINE_LANES:]),
        period=period,
        ends=_ends(lanes, period),
        **_window_links(page, "24h"),
    )


def _window_links(page: PageRequest, usual: str) -> dict[str, Any]:
    links = {name: page.url_with(range=name, behind=None) for name in _WINDOWS}
    return {"range": page.choice("range", _WINDOWS, usual), "ranges": links}


async def _lanes(
    page: PageRequest,
    agents: Sequence[AgentRow],
    held: Mapping[AgentKey, Sequence[Row]],
    usual: str,
    key: AgentKey | None = None,
) -> tuple[list[Lane], Period]:
    """Return the work of agents in the period of the address, those that hold work first."""
    ctx, length = await page.context(), _WINDOWS[page.choice("range", _WINDOWS, usual)]
    now = agents[0].now if agents else datetime(2000, 1, 1, tzinfo=UTC)
    # The line of now is inside of the chart, so that current work is not at its edge.
    period = Period(now - length, now + length / 40, now)
    work = await read_work(ctx, period.start, key)
    by_agent: dict[AgentKey, list[Row]] = {}
    for row in work.spans:
        by_agent.setdefault(AgentKey(row.actor, row.session), []).append(row)
    lanes = []
    for agent in agents:
        items = held[agent.key]
        facts = facts_of_agent(ctx, agent, items)
        is_silent = facts.state is Shown.STALLED
        current = [span for item in items for span in _held_spans(item, agent, is_silent=is_silent)]
        done = (_span(row, work.names) for row in by_agent.get(agent.key, ()) if row.ended_at)
        days = _results(now, work.days.get(agent.key, {}))
        spans = [span for span in (*done, *current) if span.end >= period.start]
        lanes.append(Lane(agent, items, sorted(spans), facts, days))
    return sorted(lanes, key=lambda lane: (not lane.is_silent, not lane.held)), period


def _span(row: Row, names: Names) -> Span:
    item, work = names.get(row.item_id), names.get(row.work_id)
    title, number = (item.name, item.number) if item else (None, None)
    text, url = _named(row, number, title, work.name if work else row.work_id)
    tone = _ENDINGS.get(row.ending, "skip")
    return Span(row.start, row.ended_at, tone, text, url if item else "")


def _held_spans(item: Row, agent: AgentRow, *, is_silent: bool) -> list[Span]:
    text, url = _named(item, item.number, item.title, item.work_name)
    if not is_silent:
        return [Span(item.since, agent.now, "run", text, url)]
    seen = max(agent.last_seen_at, item.since)
    return [Span(item.since, seen, "done", text), Span(seen, agent.now, "warn", text, url)]


def _named(row: Row, number: int | None, title: str | None, work: str) -> tuple[str, str]:
    """Return the text and the address of a step or job."""
    step = f"step {number}: " if number else ""
    part = "steps" if row.kind == "plan" else "jobs"
    url = f"/{row.kind}s/{row.work_id}/{part}/{row.item_id}"
    return f"{step}{title or row.kind}, {work}"[:160], url


def _results(now: datetime, counts: Mapping[str, int]) -> dict[str, int]:
    shown = {}
    for number in reversed(range(_DAYS)):
        day = now.astimezone(UTC).date() - timedelta(days=number)
        count = counts.get(str(day), 0)
        shown[f"{day:%b} {day.day}: {count}"] = count
    return shown


def _ends(lanes: Sequence[Lane], period: Period) -> dict[str, Any]:
    """Return how many results and failures fall into a period, and the results over time."""
    spans = [span for lane in lanes for span in lane.spans if span.kind in {"done", "fail"}]
    done = [span.end for span in spans if span.kind == "done" and span.end >= period.start]
    slices = [0] * _SLICES
    for at in done:
        slices[min(int(period.place(at) * _SLICES / 100), _SLICES - 1)] += 1
    return {"done": len(done), "failed": len(spans) - len(done), "slices": slices}


async def agent_page(page: PageRequest) -> Response:
    name = from_segment(page.path("agent")).replace("\0", "")
    key = AgentKey(name, page.query("session") or "")
    text, day = page.query("day"), None
    try:
        day = date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput(f"“{text}” is not a day; write it like 2030-01-31") from None
    activity = await read_agent(await page.context(), key, day, page.query("behind"))
    (lane,), period = await _lanes(page, [activity.agent], {key: activity.held}, "24h", key)
    # A failed step has two audit entries, one for the step and one for the plan. Show only one of
    # these entries.
    rows = [row for row, _ in groupby(_activity_row(entry, activity) for entry in activity.entries)]
    recent = [activity.now.astimezone(UTC).date() - timedelta(days=n) for n in range(_DAYS_OFFERED)]
    return await page.render(
        "agent",
        agent=activity.agent,
        lane=lane,
        period=period,
        **_window_links(page, "24h"),
        held=activity.held,
        activity=activity,
        days=[
            (shown, [*of_day])
            for shown, of_day in groupby(rows, key=lambda row: row["at"].astimezone(UTC).date())
        ],
        day=day,
        recent=recent,
        **page.list_links("behind", activity.next_cursor),
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
        "item": item_of(entry, activity.names),
        "subject": (entry.subject, entry.subject_id, activity.names.get(entry.subject_id)),
    }
