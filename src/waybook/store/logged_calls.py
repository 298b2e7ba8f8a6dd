"""Rows of the tool-call log: batches of calls, and single calls.

Successful calls are stored in batches to save space. A failed call has its own row.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from waybook.core.decision_context import Channel
from waybook.store import agents
from waybook.store.driver.queries import (
    BATCH_SIZE,
    AsJson,
    Query,
    Rows,
    Statement,
    Value,
    load,
    new_id,
)

SQL = load("logged_calls")


class LoggedCall(NamedTuple):
    """A tool call. The fields from `at` to `step_id` are the columns of the table."""

    org_id: UUID
    at: datetime
    tool: str
    actor: str
    channel: str
    session: str | None
    duration_ms: float
    request_bytes: int
    response_bytes: int
    is_error: bool
    error_code: str | None
    replayed: bool
    step_id: str | None = None
    client: str | None = None
    is_audited: bool = False


def log_statements(calls: list[LoggedCall]) -> Iterator[Statement]:
    single, batches = list[LoggedCall](), defaultdict[tuple[str, str], list[LoggedCall]](list)
    for call in calls:
        if call.is_error or (call.step_id is not None and not call.is_audited):
            single.append(call)
        else:
            batches[call.actor, call.channel].append(call)
    yield from _insert(SQL["insert_calls"], [_row(call) for call in single])
    yield from _insert(SQL["insert_batches"], [_batch(batch) for batch in batches.values()])
    yield from agents.record_statements(
        (agents.AgentKey(call.actor, call.session or ""), call.client)
        for call in calls
        if call.channel == Channel.MCP
    )


def _insert(query: Query, rows: list[tuple[Value, ...]]) -> Iterator[Statement]:
    for start in range(0, len(rows), BATCH_SIZE):
        yield query(rows=Rows(rows[start : start + BATCH_SIZE]))


def _row(call: LoggedCall) -> tuple[Value, ...]:
    _, at, *rest, _client, _is_audited = call
    return (at, new_id(), *rest)


def _batch(calls: list[LoggedCall]) -> tuple[Value, ...]:
    """Return the log row of a batch. All calls of a batch have the same user and channel."""
    latest = max(call.at for call in calls)
    items = [
        (
            round((latest - call.at).total_seconds(), 6),
            call.tool,
            call.session,
            call.duration_ms,
            call.request_bytes,
            call.response_bytes,
            call.replayed,
            call.step_id,
        )
        for call in calls
    ]
    return (latest, new_id(), calls[0].actor, calls[0].channel, len(calls), AsJson(items))
