"""Deletes expired rows of the call log, stored answers and web sessions.

If configured, archived plans and runs are deleted too. This runs periodically as the database
owner, and in only one process at a time.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import psycopg

from waybook.store.driver.queries import first_column, first_value, load
from waybook.store.maintenance.erasure import (
    erase_late_rows,
    is_chain_valid,
    lock_org,
    read_chain,
    record_erasure,
)
from waybook.store.maintenance.migrate import owner_connection
from waybook.store.maintenance.owner import (
    OwnerTransaction,
    Tombstone,
    directory_transaction,
    org_transaction,
)

SQL = load("maintenance/retention")
_PLAN_QUERIES = load("maintenance/archived_plans")
_RUN_QUERIES = load("maintenance/archived_runs")
#: Query that finds archived plans or runs, and queries that delete their rows, in order, by table.
_SUBJECTS = {
    "plan": (SQL["archived_plans"], _PLAN_QUERIES),
    "run": (SQL["archived_runs"], _RUN_QUERIES),
}

MAX_ROWS = 5_000
MAX_SUBJECTS = 50
#: Days for which the record of a passage's deletion is kept.
_DELETIONS_DAYS = 2
_WEEKS_AHEAD = 4
_WEEK = timedelta(days=7)
_NO_ORG = UUID(int=0)
#: Lock timeout of schema changes. It is short, because the whole call log waits for them.
_DDL_TIMEOUT = "2s"

_PARTITION = re.compile(r"mcp_tool_call_log_(\d{8})")


class RetentionPolicy(NamedTuple):
    calls: int
    answers: int
    archived: int
    sessions: int = 0


class _RetentionRun(NamedTuple):
    """The values of one retention pass. `stopped` returns whether the pass must end early."""

    connection: psycopg.Connection
    keep: RetentionPolicy
    now: datetime
    stopped: Callable[[], bool]

    @contextmanager
    def org_transaction(self, org_id: UUID) -> Iterator[OwnerTransaction | None]:
        with org_transaction(self.connection, org_id) as owner:
            yield owner if not self.stopped() and _alone(owner) else None


def apply_retention(
    owner_dsn: str, keep: RetentionPolicy, stopped: Callable[[], bool] = lambda: False
) -> dict[str, int]:
    gone: Counter[str] = Counter()
    with owner_connection(owner_dsn) as connection:
        with directory_transaction(connection) as owner:
            now: datetime = first_value(owner.fetch(SQL["time_now"]))
            orgs = first_column(owner.fetch(SQL["orgs"]))
            erased = first_column(owner.fetch(SQL["erased_orgs"]))
        create_partitions(connection, now)
        if keep.calls:
            gone["partitions"] += drop_partitions(connection, now - timedelta(days=keep.calls))
        chores = _RetentionRun(connection, keep, now, stopped)
        for org_id in orgs:
            gone.update(_retain_in(chores, org_id))
    for org_id in erased:
        erase_late_rows(owner_dsn, org_id)
    return {table: rows for table, rows in sorted(gone.items()) if rows}


def create_partitions(connection: psycopg.Connection, now: datetime) -> None:
    """Create the call log's missing partitions for this week and the following weeks.

    Calls of a week that are already in the default partition stay there, without a partition.
    """
    with directory_transaction(connection) as owner:
        there = _partitions(owner)
    today = now.astimezone(UTC).date()
    for ahead in range(_WEEKS_AHEAD + 1):
        week = today - timedelta(days=today.weekday()) + ahead * _WEEK
        name = f"mcp_tool_call_log_{week:%Y%m%d}"
        if name in there:
            continue
        with (
            suppress(psycopg.errors.CheckViolation),
            directory_transaction(connection, _DDL_TIMEOUT) as owner,
        ):
            if _alone(owner) and name not in _partitions(owner):
                bounds = {"since": _midnight(week), "until": _midnight(week + _WEEK)}
                owner.execute_ddl(SQL["make_partition"], name, **bounds)
                # Citus refuses several statements that are sent together.
                for query in (SQL["enable_policies"], SQL["force_policies"], SQL["create_policy"]):
                    owner.execute_ddl(query, name)


def drop_partitions(connection: psycopg.Connection, before: datetime) -> int:
    with directory_transaction(connection, _DDL_TIMEOUT) as owner:
        # The name of a partition has the first day of its week.
        newest = f"mcp_tool_call_log_{(before - _WEEK).astimezone(UTC):%Y%m%d}"
        old = [name for name in _partitions(owner) if name <= newest]
        if not old or not _alone(owner):
            return 0
        for name in old:
            owner.fetch(SQL["drop_partition"], name)
    return len(old)


def _partitions(owner: OwnerTransaction) -> list[str]:
    names = map(str, first_column(owner.fetch(SQL["partitions"])))
    return [name for name in names if _PARTITION.fullmatch(name)]


def _midnight(day: date) -> str:
    return f"{day.isoformat()} 00:00:00+00"


def _retain_in(chores: _RetentionRun, org_id: UUID) -> Counter[str]:
    gone: Counter[str] = Counter()
    keep = chores.keep
    for table, days, query in (
        ("mcp_tool_call_log", keep.calls, SQL["old_calls"]),
        ("agent", keep.calls, SQL["old_agents"]),
        ("idempotency_answer", keep.answers, SQL["old_answers"]),
        ("web_session", keep.sessions, SQL["old_sessions"]),
        ("passage_deletion", _DELETIONS_DAYS, SQL["old_deletions"]),
    ):
        # Delete in batches, so that no call waits long for a lock.
        before, rows = chores.now - timedelta(days=days), MAX_ROWS if days else 0
        while rows == MAX_ROWS:
            with chores.org_transaction(org_id) as owner:
                rows = owner.change(query, before=before, most=MAX_ROWS) if owner else 0
            gone[table] += rows
    if keep.archived:
        for subject in ("plan", "run"):
            after = str(_NO_ORG)
            before = chores.now - timedelta(days=keep.archived)
            while after:
                with chores.org_transaction(org_id) as owner:
                    after = _erase_some(owner, subject, before, after, gone) if owner else ""
    return gone


def _erase_some(
    owner: OwnerTransaction, subject: str, before: datetime, after: str, gone: Counter[str]
) -> str:
    """Erase the next batch of plans or runs. Return the last id, or "" at the end."""
    head = lock_org(owner)
    query, deletions = _SUBJECTS[subject]
    rows = owner.fetch(query, before=before, after=after, most=MAX_SUBJECTS)
    stones = [
        Tombstone(subject, subject_id, seq, seal)
        for subject_id, seq, seal in rows
        # Keep a plan or run with a broken audit chain, so that it can be investigated.
        if is_chain_valid(read_chain(owner, subject_id), seal)
    ]
    if stones:
        ids = [stone.subject_id for stone in stones]
        # Only plans have sources.
        unshared = owner.fetch(SQL["unshared_sources"], ids=ids) if subject == "plan" else []
        deleted = {
            table: owner.change(query, ids=ids, sources=first_column(unshared))
            for table, query in deletions.items()
        }
        counts = {table: rows for table, rows in sorted(deleted.items()) if rows}
        record_erasure(owner, head, what="archived", by="waybook", counts=counts, stones=stones)
        gone.update(counts)
    return rows[-1][0] if len(rows) == MAX_SUBJECTS else ""


def _alone(owner: OwnerTransaction) -> bool:
    return bool(first_value(owner.fetch(SQL["only_one"])))
