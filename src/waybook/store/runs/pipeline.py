"""Decisions on one cached run that are committed in batches, one message after the other.

Each call decides on the state after the call before it, even while that one is not committed yet:
so the next batch is decided while PostgreSQL writes the batch before it. A batch is sent as soon as
the one before it is committed. If a message fails, nothing of its batch is written, the decisions
that were based on it are dropped, and each of these calls runs again on the locked run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import NamedTuple, TypeAlias

from waybook.errors import WaybookError
from waybook.store.driver.connection import Message
from waybook.store.driver.merged_inserts import merge_inserts
from waybook.store.driver.queries import Statement
from waybook.store.driver.wire import KeyConflict, StaleCache
from waybook.store.runs import writer
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.writer import RunWrite

#: Function that executes SQL statements in one transaction.
Send: TypeAlias = Callable[[Message], Awaitable[None]]

#: Maximum number of calls in one batch, which limits the size of its message.
MAX_CALLS = 16


class DroppedDecision(Exception):
    """An earlier decision, on which this one is based, was not committed; nothing was sent."""


class DecidedCall(NamedTuple):
    """Decisions of one call on the cached run, ready to be written."""

    #: Cached run before and after the decisions; None if the next call needs the locked run.
    before: CachedRun
    after: CachedRun | None
    writes: Sequence[RunWrite]
    #: Other statements of the call.
    more: Sequence[Statement]
    send: Send


class _Waiting(NamedTuple):
    call: DecidedCall
    #: Future that is set when the call is committed.
    written: asyncio.Future[None]
    #: Context variables of the call, with which its batch is sent if it is the first call.
    context: Context


class CommitPipeline:
    def __init__(self, end: Callable[[CachedRun | None, int], None]) -> None:
        """Create an empty pipeline.

        After each batch, `end` gets the last state of the run that is known to be committed, and
        the number of calls that have ended.
        """
        self._end = end
        self._waiting: list[_Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        #: Whether a batch is in flight; only then, calls may wait.
        self.is_sending = False
        #: Run after all decisions, while a batch is in flight.
        self.state: CachedRun | None = None

    async def commit(self, call: DecidedCall) -> None:
        """Write the decisions of a call, and wait until they are committed.

        Raises:
            StaleCache: another process has changed the run; nothing was written.
            KeyConflict: a call of the batch used a key that exists; nothing was written.
            DroppedDecision: a batch before this call failed; nothing was written.
        """
        self.state = call.after
        if not self.is_sending:
            # A call without others sends the message itself, so that its cancellation ends the
            # message.
            self.is_sending = True
            await self._write([call])
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(call, written, copy_context()))
        await written

    async def _write(self, calls: Sequence[DecidedCall]) -> None:
        """Send a batch; then send the next one, or drop the calls that wait if this one failed."""
        first, last, is_written, committed = calls[0], calls[-1], False, None
        try:
            writes = [write for call in calls for write in call.writes]
            statements = writer.statements(first.before.run, writes, is_cached=True)
            for call in calls:
                statements += call.more
            await first.send(merge_inserts(statements)[0] if len(calls) > 1 else statements)
            is_written, committed = True, last.after
        except KeyConflict:
            committed = first.before
            raise
        finally:
            ended = len(calls)
            if not is_written:
                ended += self._drop_waiting()
            self.is_sending = bool(self._waiting)
            if self._waiting:
                self._send_next(ended)
            self._end(committed, ended)

    def _drop_waiting(self) -> int:
        """Report to all waiting calls that their decisions are dropped; return their number."""
        dropped, self._waiting = self._waiting, []
        for waiting in dropped:
            _settle(waiting.written, DroppedDecision())
        return len(dropped)

    def _send_next(self, ended: int) -> None:
        """Send the next batch: half of the calls, if the workers whose calls ended call again.

        So one half is decided while the other half is in flight.
        """
        half = (len(self._waiting) + ended + 1) // 2
        count = min(half, MAX_CALLS)
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        # A task of its own: the cancellation of one call must not affect the others.
        task = asyncio.create_task(self._write_for_all(batch), context=batch[0].context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_for_all(self, batch: Sequence[_Waiting]) -> None:
        outcome: BaseException | None = None
        try:
            await self._write([waiting.call for waiting in batch])
        except asyncio.CancelledError as error:
            outcome = error
            raise
        # The calls of the batch report the error.
        except Exception as error:  # noqa: BLE001
            outcome = error
        finally:
            for waiting in batch:
                _settle(waiting.written, outcome)


def _settle(written: asyncio.Future[None], error: BaseException | None) -> None:
    """Report the outcome of a batch to a call that waits for it.

    An error whose cause may be one call, such as a rejected value, is reported as StaleCache:
    nothing was written, each call runs again on the locked run, and only this call fails.
    """
    if written.done():
        return
    if error is None:
        written.set_result(None)
    elif isinstance(error, asyncio.CancelledError):
        written.cancel()
    elif isinstance(error, WaybookError | KeyConflict | DroppedDecision):
        written.set_exception(error)
    else:
        written.set_exception(StaleCache())
