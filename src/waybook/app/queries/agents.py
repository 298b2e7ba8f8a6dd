"""Queries about the agents of an org: their clients, calls, work and audit entries.

These queries identify an agent by its user and its session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from waybook.app.queries.audit import NEVER, changes_in, entry_cursor, entry_details, place_behind
from waybook.app.queries.work_list import ListOrder, PlanFilter, plans_statement
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import Facts, Kind
from waybook.core.changes import Entity
from waybook.core.ids import is_id, normalize_id
from waybook.core.shown import Shown
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import rfc3339
from waybook.store import agents, audit
from waybook.store.agents import AgentKey, AgentRow, NameRow
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import Row, is_uuid
from waybook.store.work import WorkerRow, workers_statement

__all__ = ["AgentKey", "AgentRow", "NameRow", "Row"]

Names: TypeAlias = Mapping[str, NameRow]
_ITEM_FIELDS: Final = ("stepId", "jobId")
_NAMED_ENTITIES: Final = frozenset({Entity.STEP, Entity.JOB})
_MAX_NAMED_CHANGES: Final = 30
MAX_SUBJECTS: Final = 10
PAGE_SIZE: Final = 50
_MAX_SEARCHED_RUNS: Final = 500


async def find_names(ctx: RequestContext, entries: Iterable[SealedEntry]) -> Names:
    ids = {row_id for entry in entries for row_id in _ids_in(entry)}
    if not ids:
        return {}
    (rows,) = await ctx.read(agents.names_statement(ids))
    return agents.read_names(rows)


async def find_subjects(ctx: RequestContext, text: str) -> list[NameRow]:
    """Return the newest plans and runs whose name contains a text."""
    if is_uuid(text) or is_id(normalize_id(text)):
        return []
    wanted = PlanFilter(order=ListOrder.CREATION, all=True, text=text)
    plans, runs = await ctx.read(
        plans_statement(wanted, MAX_SUBJECTS),
        agents.SQL["runs_named"](text=text, newest=_MAX_SEARCHED_RUNS, most=MAX_SUBJECTS),
    )
    named = (NameRow(kind="plan", id=p.id, name=p.name, number=None, work_id=None) for p in plans)
    return [*named, *runs]


def item_of(entry: SealedEntry, names: Names) -> NameRow | None:
    details = entry_details(entry)
    for field in _ITEM_FIELDS:
        named = details.get(field)
        if isinstance(named, str) and named in names:
            return names[named]
    return None


def _ids_in(entry: SealedEntry) -> Iterator[str]:
    yield entry.subject_id
    details = entry_details(entry)
    yield from (str(details[field]) for field in _ITEM_FIELDS if field in details)
    for number, change in enumerate(changes_in([entry])):
        if number >= _MAX_NAMED_CHANGES:
            return
        if change.entity in _NAMED_ENTITIES:
            yield change.id


class AgentActivity(NamedTuple):
    """An agent's audit entries, newest first, with the names of the plans and runs in them."""

    agent: AgentRow
    held: list[Row]
    entries: list[SealedEntry]
    names: Names
    workers: Sequence[WorkerRow]
    counts: Row
    now: datetime
    next_cursor: str | None

    @property
    def is_cut(self) -> bool:
        return bool(self.counts.entries >= agents.MAX_COUNTED)


class AgentList(NamedTuple):
    """A page of agents, latest first, and all workers that report.

    `held` has the steps and jobs that each agent works on.
    """

    agents: list[AgentRow]
    held: Mapping[AgentKey, list[Row]]
    next_cursor: str | None
    workers: Sequence[WorkerRow]


async def list_agents(
    ctx: RequestContext, cursor: str | None = None, limit: int = PAGE_SIZE
) -> AgentList:
    """Return a page of the agents that made calls in the last 30 days."""
    at, name, session = _place(cursor)
    statement = agents.SQL["agents_page"](
        at=at, name=name, session=session, most=limit + 1, counted=agents.MAX_COUNTED
    )
    rows, workers, *held = await ctx.read(statement, workers_statement(), *agents.held_statements())
    shown = rows[:limit]
    items: dict[AgentKey, list[Row]] = {row.key: [] for row in shown}
    for item in chain(*held):
        items.get(AgentKey(item.held_by, item.session), []).append(item)
    last = shown[-1] if len(rows) > limit else None
    place = (rfc3339(last.last_seen_at), *(quote(t, safe="") for t in last.key)) if last else ()
    return AgentList(shown, items, ",".join(place) or None, workers)


def facts_of_agent(ctx: RequestContext, agent: AgentRow, held: Sequence[Row]) -> Facts:
    """Return whether an agent works, and how many steps it holds while it is silent."""
    if not held:
        return Facts(Kind.AGENT, Shown.TODO)
    if agent.now - agent.last_seen_at <= ctx.services.stall_threshold:
        return Facts(Kind.AGENT, Shown.RUNNING)
    return Facts(Kind.AGENT, Shown.STALLED, silent=sum(item.kind == "plan" for item in held))


async def read_agent(
    ctx: RequestContext, key: AgentKey, day: date | None = None, cursor: str | None = None
) -> AgentActivity:
    """Return an agent with a page of its audit entries, optionally only of one `day` in UTC."""
    since, until = f"-{NEVER}", None
    if day is not None:
        midnight = datetime.combine(day, time(), UTC)
        try:
            since, until = rfc3339(midnight), midnight + timedelta(days=1)
        except OverflowError:
            raise InvalidInput(f"{day} is too far in the future") from None
    at, subject_id, seq = place_behind(cursor, until)
    end, named, counted = rfc3339(until) if until else NEVER, key._asdict(), agents.MAX_COUNTED
    entries = audit.SQL["agent_entries"](
        **named, since=since, at=at, subject_id=subject_id, seq=seq, most=PAGE_SIZE + 1
    )
    rows, workers, *held, (counts,), listed = await ctx.read(
        agents.SQL["agent"](**named, counted=counted),
        workers_statement(key=key),
        *agents.held_statements(key),
        agents.SQL["agent_counts"](**named, since=since, until=end, counted=counted),
        entries,
    )
    if not rows:
        raise NotFound("there is no agent with this name and session; see the list of agents")
    (row,) = rows
    shown = listed[:PAGE_SIZE]
    return AgentActivity(
        agent=row,
        held=[*chain(*held)],
        workers=workers,
        entries=shown,
        names=await find_names(ctx, shown),
        counts=counts,
        now=row.now,
        next_cursor=entry_cursor(shown[-1]) if len(listed) > PAGE_SIZE else None,
    )


class AgentWork(NamedTuple):
    """Work of agents since a time, with its names, and their results by day."""

    spans: list[Row]
    names: Names
    #: Number of results on each of the last 30 days in UTC, by date.
    days: Mapping[AgentKey, Mapping[str, int]]


async def read_work(ctx: RequestContext, since: datetime, key: AgentKey | None = None) -> AgentWork:
    """Return what agents, or one agent, worked on since a time."""
    name, session = key or (None, None)
    # Work that was claimed before may end in the period.
    begun = rfc3339(since - timedelta(days=1))
    rows, counts = await ctx.read(
        agents.SQL["spans"](since=begun, name=name, session=session, most=agents.MAX_COUNTED),
        agents.SQL["agent_days"](most=agents.MAX_ENTRIES_READ),
    )
    days: dict[AgentKey, dict[str, int]] = {}
    for count in counts:
        days.setdefault(AgentKey(count.actor, count.session), {})[count.day] = count.results
    shown = [row for row in rows if row.ended_at is None or row.ended_at >= since]
    ids = {row_id for row in shown for row_id in (row.work_id, row.item_id) if row_id}
    (named,) = await ctx.read(agents.names_statement(ids))
    return AgentWork(shown, agents.read_names(named), days)


def _place(cursor: str | None) -> tuple[str, str, str]:
    """Decode a cursor: return the time, user and session of the last agent on the previous page."""
    if cursor is None:
        return NEVER, "", ""
    with suppress(ValueError, OverflowError):
        at, name, session = cursor.split(",")
        place = rfc3339(datetime.fromisoformat(at).astimezone(UTC)), unquote(name), unquote(session)
        if "\0" not in place[1] + place[2]:
            return place
    raise InvalidInput("invalid cursor; start from the first page")
