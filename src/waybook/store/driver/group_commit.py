"""Group commit: concurrent writes of one org share one transaction.

If a statement fails, the whole group is rolled back, and each call of the group is sent again in
its own transaction. So an error affects only the call that caused it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import NamedTuple, TypeAlias
from uuid import UUID

import psycopg

from waybook.core.histograms import Histogram
from waybook.errors import Busy, StaleCredential, Unavailable
from waybook.store.driver.connection import KeyConflict, Message, Results, StaleCache
from waybook.store.driver.queries import PREPARED_ROW_COUNT, Query, Statement

log = logging.getLogger(__name__)
#: Maximum number of an org's transactions that await an answer. Further calls wait, and are then
#: sent together.
MAX_IN_FLIGHT = 3
#: Maximum number of writes sent together. The limit is small, so that several database backends
#: share the work.
MAX_CALLS = 4
#: Maximum number of reads sent together. It is larger, because reads are faster than writes.
MAX_READS = 8
#: Maximum bytes of the parameters of all calls in a group. A larger call is sent alone.
MAX_BYTES = 262_144
#: Maximum number of waiting calls per org. If it is reached, new calls are sent alone.
MAX_WAITING = 256
MAX_WAIT_SECONDS = 0.05
#: Lock timeout of a group. It is short, because a call that waits for a lock delays the whole
#: group.
SET_LOCK_TIMEOUT = "set local lock_timeout = '50ms'"
Write: TypeAlias = Callable[[UUID, Message], Awaitable[Results]]


class Call(NamedTuple):
    """The statements of one tool call. Either all of them are committed or none."""

    org_id: UUID
    aggregate_id: str
    statements: Message
    #: Runs after the commit, even if the caller was canceled in the meantime.
    on_commit: Callable[[], None]
    #: Whether the call waits for the next iteration of the event loop, so that it can be sent
    #: together with other calls.
    waits: bool = False
    is_read: bool = False


class _WaitingCall(NamedTuple):
    call: Call
    size: int
    since: float
    outcome: asyncio.Future[Results | None]


class _OrgCalls:
    def __init__(self, org_id: UUID) -> None:
        self.org_id = org_id
        self.in_flight = 0
        self.waiting: deque[_WaitingCall] = deque()
        self.is_sent_soon = False
        self.timer: asyncio.TimerHandle | None = None

    def take_group(self) -> list[_WaitingCall]:
        """Remove and return the calls that are sent next as one group.

        A group has at most one call per plan or run, because a second call would not see the
        changes of the first one.
        """
        group, left, size = dict[str, _WaitingCall](), deque[_WaitingCall](), 0
        places = [MAX_CALLS, MAX_READS]
        for waiting in self.waiting:
            (_, aggregate_id, _, _, _, is_read), call_size, _, outcome = waiting
            if outcome.done():
                continue  # The caller was canceled.
            fits = places[is_read] and size + call_size <= MAX_BYTES
            if fits and aggregate_id not in group:
                group[aggregate_id] = waiting
                places[is_read] -= 1
                size += call_size
            else:
                left.append(waiting)
        self.waiting = left
        return [group[aggregate_id] for aggregate_id in sorted(group)]


class GroupCommit:
    def __init__(self, write: Write) -> None:
        self._write = write
        self._orgs: dict[UUID, _OrgCalls] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._returning: set[UUID] = set()
        self.sizes = Histogram((*range(1, MAX_CALLS + 1), MAX_READS, MAX_CALLS + MAX_READS))

    def has_calls(self, org_id: UUID) -> bool:
        return org_id in self._orgs or org_id in self._returning

    async def commit(self, call: Call) -> Results:
        """Send a call, possibly together with other calls, and commit.

        If the caller is canceled before the call is sent, nothing is sent. If the caller is
        canceled later, the call is committed nevertheless.

        The errors are those of `DbConnection.send`.
        """
        calls = self._calls(call.org_id)
        if (call.waits or calls.in_flight >= MAX_IN_FLIGHT) and len(calls.waiting) < MAX_WAITING:
            results = await self._join_group(calls, call)
            if results is not None:
                return results
            calls = self._calls(call.org_id)
        calls.in_flight += 1
        self.sizes.observe(1)
        try:
            results = await self._write(call.org_id, call.statements)
        finally:
            self._end_message(calls)
        call.on_commit()
        return results

    def _calls(self, org_id: UUID) -> _OrgCalls:
        calls = self._orgs.get(org_id)
        if calls is None:
            calls = self._orgs[org_id] = _OrgCalls(org_id)
        return calls

    async def _join_group(self, calls: _OrgCalls, call: Call) -> Results | None:
        """Wait for the results of a group, or return None if the call must be sent alone."""
        # The size of a read is not counted, because its parameters are only a few ids.
        parameters = (s.parameters for s in call.statements if isinstance(s, Statement))
        values = filter(None, chain.from_iterable(parameters))
        size = 0 if call.is_read else sum(map(len, values))
        if size > MAX_BYTES:
            return None
        loop = asyncio.get_running_loop()
        waiting = _WaitingCall(call, size, loop.time(), loop.create_future())
        calls.waiting.append(waiting)
        if not call.waits or calls.in_flight >= MAX_IN_FLIGHT:
            self._limit_wait(calls)
        elif not calls.is_sent_soon:
            calls.is_sent_soon = True
            loop.call_soon(self._send_soon, calls)
        return await waiting.outcome

    def _limit_wait(self, calls: _OrgCalls) -> None:
        if calls.timer is None:
            loop = asyncio.get_running_loop()
            calls.timer = loop.call_later(MAX_WAIT_SECONDS, self._send_overdue, calls)

    def _end_message(self, calls: _OrgCalls) -> None:
        calls.in_flight -= 1
        if calls.waiting and calls.in_flight < MAX_IN_FLIGHT:
            self._send_next(calls)
        if not calls.in_flight and not calls.waiting:
            del self._orgs[calls.org_id]

    def _send_soon(self, calls: _OrgCalls) -> None:
        calls.is_sent_soon = False
        while calls.waiting and calls.in_flight < MAX_IN_FLIGHT:
            self._send_next(calls)
        if calls.waiting:
            self._limit_wait(calls)

    def _send_overdue(self, calls: _OrgCalls) -> None:
        calls.timer, loop = None, asyncio.get_running_loop()
        while calls.waiting and loop.time() - calls.waiting[0].since >= MAX_WAIT_SECONDS:
            self._send_next(calls)
        if calls.waiting:
            due = calls.waiting[0].since + MAX_WAIT_SECONDS
            calls.timer = loop.call_at(due, self._send_overdue, calls)

    def _send_next(self, calls: _OrgCalls) -> None:
        group = calls.take_group()
        if group:
            calls.in_flight += 1
            self.sizes.observe(len(group))
            # Use a separate task, so that canceling one caller does not cancel the others.
            task = asyncio.create_task(self._send_group(calls, group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send_group(self, calls: _OrgCalls, group: list[_WaitingCall]) -> None:
        results: Results | None = None
        try:
            results = await self._write_group(calls.org_id, group)
        except Unavailable as error:
            for waiting in group:
                if not waiting.outcome.done():
                    waiting.outcome.set_exception(Unavailable(error.message))
        except (Busy, KeyConflict, StaleCache, StaleCredential, psycopg.Error) as error:
            log.debug("%d calls are sent again, alone: %s", len(group), type(error).__name__)
        finally:
            _deliver(group, results)
            if len(group) > 1:
                self._returning.add(calls.org_id)
                asyncio.get_running_loop().call_soon(self._returning.discard, calls.org_id)
            self._end_message(calls)

    async def _write_group(self, org_id: UUID, group: list[_WaitingCall]) -> Results:
        statements = [statement for waiting in group for statement in waiting.call.statements]
        if len(group) == 1 or all(waiting.call.is_read for waiting in group):
            return await self._write(org_id, statements)
        message, places = merge_inserts(statements)
        _, *results = await self._write(org_id, [SET_LOCK_TIMEOUT, *message])
        return [[] if place == MERGED else results[place] for place in places]


def _deliver(group: list[_WaitingCall], results: Results | None) -> None:
    """Give each call of a group its results. None means that each call must be sent alone."""
    loop, start = asyncio.get_running_loop(), 0
    for call, _, _, outcome in group:
        end = start + len(call.statements)
        if results is not None and not call.is_read:
            # The event loop runs the callback, so that its error does not affect other calls.
            loop.call_soon(call.on_commit)
        if not outcome.done():
            outcome.set_result(None if results is None else results[start:end])
        start = end


#: Marks a statement that was merged into another one and has no result of its own.
MERGED = -1


def merge_inserts(message: Message) -> tuple[list[Statement | str], list[int]]:
    """Merge the inserts that have the same query, and move them to the end.

    Return the new list of statements, and for each old statement the index of its result.
    """
    merged: list[Statement | str] = []
    places: list[int] = []
    inserts: dict[Query, list[Statement]] = {}
    for statement in message:
        query = None if isinstance(statement, str) else statement.form.merges
        if query is None or isinstance(statement, str):
            places.append(len(merged))
            merged.append(statement)
        else:
            places.append(MERGED)
            inserts.setdefault(query, []).append(statement)
    for query, statements in inserts.items():
        merged += _merge(query, statements)
    return merged, places


def _merge(query: Query, statements: list[Statement]) -> list[Statement]:
    batches: list[list[Statement]] = []
    rows = PREPARED_ROW_COUNT
    for statement in statements:
        rows += statement.form.rows
        if rows > PREPARED_ROW_COUNT:
            rows = statement.form.rows
            batches.append([])
        batches[-1].append(statement)
    return [query.merge(batch) for batch in batches]
