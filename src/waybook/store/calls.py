"""The tool-call log: telemetry, written behind the calls, bounded, its drops counted.

The audit is the record; this is for looking at traffic. It may lose rows, and says how many.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from waybook.errors import WaybookError
from waybook.store.database import Database
from waybook.store.ids import new_id
from waybook.store.sql import BATCH_SIZE, Rows, Statement, Value, load

log = logging.getLogger(__name__)

SQL = load("calls")

#: How many calls may wait to be written, and how many go into one statement.
MAX_QUEUED = 10_000
MAX_BATCH_SIZE = 500
#: How long a call may wait for company, in seconds.
BATCH_DELAY_SECONDS = 0.2
#: As many calls are shown of a step.
MAX_SHOWN = 20


class LoggedCall(NamedTuple):
    """One call of an org; from the time on in the order of the table's columns."""

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
    #: The step it named, or was given.
    step_id: str | None = None


class CallRecord(NamedTuple):
    """One call as people look at it."""

    at: datetime
    tool: str
    actor: str
    channel: str
    session: str | None
    duration_ms: float
    #: What stood in its way, if something did.
    code: str | None


def calls_of_step(step_id: str) -> Statement:
    """Ask for the latest calls about a step."""
    return SQL["calls_of_step"](step_id=step_id, most=MAX_SHOWN)


def read_calls(rows: Iterable[tuple[Any, ...]]) -> list[CallRecord]:
    """The calls that were found, in UTC."""
    found = (CallRecord(*row) for row in rows)
    return [one._replace(at=one.at.astimezone(UTC)) for one in found]


class CallLog:
    def __init__(self, database: Database) -> None:
        """Nothing is written until `write_next` is called."""
        self._database = database
        self._waiting: asyncio.Queue[LoggedCall] = asyncio.Queue(MAX_QUEUED)
        #: How many calls of each org were answered and not logged.
        self.dropped_of: Counter[UUID] = Counter()

    @property
    def dropped(self) -> int:
        """How many there were of all orgs."""
        return self.dropped_of.total()

    def record(self, call: LoggedCall) -> None:
        """Remember a call, or count it as dropped; never wait, never fail."""
        try:
            self._waiting.put_nowait(call)
        except asyncio.QueueFull:
            self.dropped_of[call.org_id] += 1

    async def write_next(self) -> None:
        """Wait for a call, and write it with those that come soon after."""
        first = await self._waiting.get()
        await asyncio.sleep(BATCH_DELAY_SECONDS)
        await self._write([first, *self._take()])

    async def flush(self) -> None:
        """Write what waits, now."""
        while batch := self._take():
            await self._write(batch)

    def _take(self) -> list[LoggedCall]:
        waiting = min(self._waiting.qsize(), MAX_BATCH_SIZE)
        return [self._waiting.get_nowait() for _ in range(waiting)]

    async def _write(self, batch: list[LoggedCall]) -> None:
        by_org: dict[UUID, list[LoggedCall]] = defaultdict(list)
        for call in batch:
            by_org[call.org_id].append(call)
        for org_id, calls in by_org.items():
            try:
                async with self._database.org_transaction(org_id) as tx:
                    await tx.commit(*_statements(calls))
            except Exception as error:
                self.dropped_of[org_id] += len(calls)
                ours = isinstance(error, WaybookError)
                log.warning("%d calls not logged: %s", len(calls), error, exc_info=not ours)


def _statements(calls: list[LoggedCall]) -> Iterator[Statement]:
    rows = [_row(call) for call in calls]
    for start in range(0, len(rows), BATCH_SIZE):
        yield SQL["insert_calls"](rows=Rows(rows[start : start + BATCH_SIZE]))


def _row(call: LoggedCall) -> tuple[Value, ...]:
    _, at, *rest = call
    return (at, new_id(), *rest)
