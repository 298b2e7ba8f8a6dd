"""Commits the changes of one cached run in batches.

A call starts from the state after the previous call, even if that call is not committed yet. If a
batch fails, the changes of all later calls are dropped, and these calls run again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import NamedTuple, TypeAlias

from waybook.errors import Busy, WaybookError
from waybook.store.driver.connection import DroppedDecision, KeyConflict, Message, StaleCache
from waybook.store.driver.group_commit import merge_inserts
from waybook.store.driver.queries import Statement
from waybook.store.runs import writer
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.writer import RunWrite

#: A call waits for its turn as long as for a database lock.
TURN_TIMEOUT_SECONDS = 5.0
#: Maximum number of calls that share a turn.
MAX_SHARED = 32


class TurnQueue:
    def __init__(self) -> None:
        #: For each waiting call, whether its turn is granted and whether it shares the turn.
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()
        self._sharing = 0
        self._is_alone = False

    @property
    def is_taken(self) -> bool:
        return self._is_alone or self._sharing > 0

    async def take(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        """Wait for a turn that no other call shares."""
        if self._is_alone or self._sharing or self._waiting:
            await self._wait(seconds, is_shared=False)
        else:
            self._is_alone = True

    async def join(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        """Wait for a turn that other calls may share."""
        if self._is_alone or self._waiting or self._sharing >= MAX_SHARED:
            await self._wait(seconds, is_shared=True)
        else:
            self._sharing += 1

    def end(self) -> None:
        self._is_alone = False
        self._begin_next()

    def leave(self, calls: int = 1) -> None:
        self._sharing -= calls
        if self._waiting:
            self._begin_next()

    async def _wait(self, seconds: float, *, is_shared: bool) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((granted, is_shared))
        try:
            async with asyncio.timeout(seconds):
                await granted
        except (TimeoutError, asyncio.CancelledError) as error:
            # The call stops waiting, so end its turn.
            if granted.cancelled() or not granted.done():
                self._begin_next()
            elif is_shared:
                self.leave()
            else:
                self.end()
            if isinstance(error, TimeoutError):
                raise Busy from error
            raise

    def _begin_next(self) -> None:
        while self._waiting and not self._is_alone:
            granted, is_shared = self._waiting[0]
            if not granted.done():
                if self._sharing >= (MAX_SHARED if is_shared else 1):
                    return
                self._sharing += is_shared
                self._is_alone = not is_shared
                granted.set_result(None)
            self._waiting.popleft()


Send: TypeAlias = Callable[[Message], Awaitable[None]]

MAX_CALLS = 16


class DecidedCall(NamedTuple):
    before: CachedRun
    after: CachedRun | None
    writes: Sequence[RunWrite]
    more: Sequence[Statement]
    send: Send


class _Waiting(NamedTuple):
    call: DecidedCall
    written: asyncio.Future[None]
    context: Context


class CommitPipeline:
    def __init__(self, end: Callable[[CachedRun | None, int], None]) -> None:
        """Create an empty pipeline.

        After each batch, the pipeline calls `end` with the last committed state of the run, or None
        if that is unknown, and with the number of finished calls.
        """
        self._end = end
        self._waiting: list[_Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_sending = False
        self.state: CachedRun | None = None

    async def commit(self, call: DecidedCall) -> None:
        """Write the changes of a call, and wait until they are committed.

        Raises:
            StaleCache: another process has changed the run; nothing was written.
            KeyConflict: a call of the batch inserted a row whose key exists; nothing was written.
            DroppedDecision: a batch before this call failed; nothing was written.
        """
        self.state = call.after
        if not self.is_sending:
            # This call sends its statements itself, so that canceling the call cancels them.
            self.is_sending = True
            await self._write([call])
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(call, written, copy_context()))
        await written

    async def _write(self, calls: Sequence[DecidedCall]) -> None:
        """Send a batch, then start the next one. If the batch fails, drop the waiting calls."""
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
                dropped, self._waiting = self._waiting, []
                for waiting in dropped:
                    _settle(waiting.written, DroppedDecision())
                ended += len(dropped)
            self.is_sending = bool(self._waiting)
            if self._waiting:
                self._send_next(ended)
            self._end(committed, ended)

    def _send_next(self, ended: int) -> None:
        """Send the next batch, with half as many calls as are waiting or have just ended."""
        half = (len(self._waiting) + ended + 1) // 2
        count = min(half, MAX_CALLS)
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        # Use a separate task, so that canceling one call does not affect the others.
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
        # Every call of the batch raises the error, so this task does not.
        except Exception as error:  # noqa: BLE001
            outcome = error
        finally:
            for waiting in batch:
                _settle(waiting.written, outcome)


def _settle(written: asyncio.Future[None], error: BaseException | None) -> None:
    """Report the outcome of a batch to one of its calls.

    If any one call of the batch may have caused the error, every call gets `StaleCache` and runs
    again, so that only the faulty call fails.
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
