"""Calls on one cached run whose decisions are committed together, in one message.

Each call of a batch decides on the state after the call before it. If the message fails, nothing is
written, and each call runs again on the locked run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from waybook.errors import WaybookError
from waybook.store.driver.queries import Statement
from waybook.store.driver.wire import KeyConflict, StaleCache
from waybook.store.runs import writer
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.writer import RunWrite

#: Function that executes SQL statements in one transaction.
Send: TypeAlias = Callable[[list[Statement]], Awaitable[None]]


class Batch:
    def __init__(
        self, state: CachedRun | None, calls: int, end: Callable[[CachedRun | None], None]
    ) -> None:
        """Create a batch of a number of calls; `end` gets the state of the run after the batch."""
        #: Cached run after the decisions so far; None if the next call needs the locked run.
        self.state = state
        self._before = state
        self._undecided = calls
        self._end = end
        self._writes: list[RunWrite] = []
        self._more: list[Statement] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._send: Send | None = None
        self._task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """Leave the batch without a decision."""
        self._undecided -= 1
        if not self._undecided:
            self._finish()

    async def commit(
        self,
        state: CachedRun | None,
        writes: Sequence[RunWrite],
        more: Sequence[Statement],
        send: Send,
    ) -> None:
        """Write the decisions of a call, and wait until the batch is committed.

        `state` is the run after the decisions; `more` are other statements of the call.

        Raises:
            StaleCache: another process has changed the run; nothing was written.
            KeyConflict: a call of the batch used a key that exists; nothing was written.
        """
        self.state, self._send = state, send
        self._writes += writes
        self._more += more
        self._undecided -= 1
        if not self._undecided and not self._waiting:
            # The only call sends the message itself, so that its cancellation ends the message.
            await self._write()
            return
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(written)
        if not self._undecided:
            self._finish()
        await written

    def _finish(self) -> None:
        if self._waiting:
            # A task of its own: the cancellation of one call must not affect the others.
            self._task = asyncio.create_task(self._write_for_all())
            self._task.add_done_callback(_retrieve_error)
        else:
            self._end(self._before)

    async def _write_for_all(self) -> None:
        error: BaseException | None = None
        try:
            await self._write()
        except BaseException as raised:
            error = raised
            raise
        finally:
            for written in self._waiting:
                _settle(written, error)

    async def _write(self) -> None:
        state = None
        try:
            if self._before is None or self._send is None:
                raise RuntimeError("a batch without a cached run was written")
            statements = writer.statements(self._before.run, self._writes, is_cached=True)
            await self._send([*statements, *self._more])
            state = self.state
        except KeyConflict:
            state = self._before
            raise
        finally:
            self._end(state)


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
    elif isinstance(error, WaybookError | KeyConflict):
        written.set_exception(error)
    else:
        written.set_exception(StaleCache())


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Retrieve the error of a task, which the calls of the batch report; else asyncio logs it."""
    if not task.cancelled():
        task.exception()
