"""Queries for agents, for the steps and jobs that they hold, and for the names of plans and runs.

An agent is identified by a user and a session name, which may be empty.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from waybook.core.ids import is_id
from waybook.core.usage import Totals
from waybook.store.driver.queries import BATCH_SIZE, Ids, Rows, Statement, is_uuid, load

MAX_COUNTED = 2_000
_MAX_TITLE_LENGTH = 120
MAX_ENTRIES_READ = 20_000
#: Parts of a column of costs: the largest ones, and all others together.
MAX_PARTS = 5
_MAX_TIMES = 1_000


class AgentKey(NamedTuple):
    """User and session name that identify an agent. The session name may be empty."""

    name: str
    session: str


#: The client that each agent used last.
Clients: TypeAlias = Mapping[AgentKey, str]


class AgentRow(NamedTuple):
    #: Sum of the tokens and cost that the agent reported.
    usage: Totals
    name: str
    session: str
    clients: list[str]
    first_seen_at: datetime | None
    last_seen_at: datetime
    completed: int
    failed: int
    counted: int
    now: datetime

    @property
    def key(self) -> AgentKey:
        return AgentKey(self.name, self.session)

    @property
    def has_more(self) -> bool:
        """Return whether the counts may be too low, because not all rows were read."""
        return max(self.counted, self.usage.results) >= MAX_COUNTED


class NameRow(NamedTuple):
    kind: str
    id: str
    name: str
    #: Position of the step in its plan. None if the row is not a step.
    number: int | None
    work_id: str | None


SQL = load(
    "agents",
    **dict.fromkeys(("agents_page", "agent"), AgentRow),
    **dict.fromkeys(("names", "runs_named"), NameRow),
    usage_by_agent=(Totals, "usage name session total clients"),
    usage_by_time=(Totals, "usage start place part"),
)


def record_statements(calls: Iterable[tuple[AgentKey, str | None]]) -> Iterator[Statement]:
    clients: dict[AgentKey, str] = {}
    for key, client in calls:
        clients[key] = client or clients.get(key, "")
    # Sort the rows, so that concurrent transactions lock them in the same order and cannot
    # deadlock.
    rows = [(*key, _array(client)) for key, client in sorted(clients.items())]
    for start in range(0, len(rows), BATCH_SIZE):
        yield SQL["record_agents"](rows=Rows(rows[start : start + BATCH_SIZE]))


def _array(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'{{"{escaped}"}}' if text else "{}"


def held_statements(key: AgentKey | None = None) -> tuple[Statement, Statement]:
    name, session = key or (None, None)
    return (
        SQL["held_steps"](name=name, session=session, wide=_MAX_TITLE_LENGTH),
        SQL["held_jobs"](name=name, session=session),
    )


def cost_statements(
    since: datetime, most: int, until: datetime | None, unit: str, by: str
) -> tuple[Statement, Statement, Statement]:
    return (
        time_statement(since, until, unit, by),
        SQL["usage_by_agent"](since=since, until=until, most=most),
        SQL["results_without_usage"](since=since, until=until, most=MAX_ENTRIES_READ),
    )


def time_statement(
    since: datetime, until: datetime | None, unit: str, by: str, most: int = 0
) -> Statement:
    """Select usage by time, for the largest parts or, with `most`, for that many rows of all."""
    places = most or MAX_PARTS
    return SQL["usage_by_time"](
        since=since, until=until, unit=unit, by=by, places=places, most=most or _MAX_TIMES
    )


def names_statement(ids: Collection[str]) -> Statement:
    return SQL["names"](
        ids=Ids(sorted(filter(is_id, ids))),
        uuids=Ids(sorted(filter(is_uuid, ids))),
        wide=_MAX_TITLE_LENGTH,
    )


def read_names(rows: Iterable[NameRow]) -> Mapping[str, NameRow]:
    return {row.id: row for row in rows}
