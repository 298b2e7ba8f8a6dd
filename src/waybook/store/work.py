"""Queries for caps on work, reservations under them, and workers."""

from datetime import datetime
from typing import NamedTuple

from waybook.accounts.caps import Cap
from waybook.store.agents import AgentKey
from waybook.store.driver.queries import Statement, load


class WorkerRow(NamedTuple):
    """The last report of a worker. `name` and `session` identify its agent."""

    name: str
    session: str
    agent: str
    host: str | None
    state: str
    until: datetime | None
    reason: str | None
    plan_id: str | None
    run_id: str | None
    step_id: str | None
    job_id: str | None
    lines: str | None
    started_at: datetime
    reported_at: datetime
    #: Name of the plan or run.
    work: str | None


class PausedCap(NamedTuple):
    """A cap at which work waits for a person, and the name of its plan or run."""

    cap: Cap
    name: str | None


MAX_WORKERS = 200

SQL = load(
    "work",
    **dict.fromkeys(("caps_of", "cap", "caps"), Cap),
    paused_caps=PausedCap,
    workers=WorkerRow,
)


def workers_statement(work_id: str | None = None, key: AgentKey | None = None) -> Statement:
    """Select the workers that reported lately: all, those on a plan or run, or one agent's."""
    name, session = key or (None, None)
    return SQL["workers"](work_id=work_id, name=name, session=session, most=MAX_WORKERS)
