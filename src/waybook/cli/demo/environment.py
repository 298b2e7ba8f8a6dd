"""Simulated clock and temporary database of the demo.

One actor acts at a time. When it sleeps, the clock jumps to the time when the next one wakes, so
that events always have the same order.
"""

import asyncio
import heapq
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.layout import ControlDirectory
from waybook.embedded_postgres.supervisor import attach
from waybook.store.driver.database import Database

Show = Callable[[], Awaitable[None]]
_FRAME_SECONDS = 0.15
_MAX_SIMULATED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PlaybackSpeed:
    """Real seconds per simulated minute, and per line that the user reads."""

    per_minute: float
    per_line: float


#: `SLOW` is for the plan, which logs every step. `SLOW_RUN` is for the run, which logs only major
#: events.
SLOW = PlaybackSpeed(0.045, 0.14)
SLOW_RUN = PlaybackSpeed(0.015, 0.1)
FAST = PlaybackSpeed(0, 0)


class SimulatedClock:
    def __init__(self, database: Database, start: datetime, pace: PlaybackSpeed) -> None:
        """Set the database clock to `start`. From then on, only the simulation advances it."""
        self._database = database
        self.pace = pace
        self._asleep: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._is_idle = asyncio.Event()
        self._owed = self._shown = 0.0
        self._is_unread = False
        self.now = start

    @property
    def now(self) -> datetime:
        return self._now

    @now.setter
    def now(self, now: datetime) -> None:
        self._now = self._database.frozen_now = now

    def pause_to_read(self) -> None:
        """Extend the next pause by the time to read one line."""
        self._owed += self.pace.per_line
        self._is_unread = True

    async def sleep(self, minutes: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        at = self.now + timedelta(minutes=minutes)
        heapq.heappush(self._asleep, (at, next(self._numbers), woken))
        self._is_idle.set()
        await woken

    async def run(self, actors: Iterable[Coroutine[object, object, None]], show: Show) -> None:
        """Let the actors act, one at a time, until all have ended.

        Raises:
            TimeoutError: the actors wait for something that does not happen.
        """
        end = self.now + _MAX_SIMULATED
        tasks: list[asyncio.Task[None]] = []
        try:
            for actor in actors:
                tasks.append(asyncio.create_task(self._act(actor)))
                await self._until_idle(tasks, show)
            while self._asleep:
                at, _, woken = heapq.heappop(self._asleep)
                if at > end:
                    raise TimeoutError(f"the demo did not end within {_MAX_SIMULATED.days} days")
                self._owed += (at - self.now).total_seconds() / 60 * self.pace.per_minute
                self.now = at
                woken.set_result(None)
                await self._until_idle(tasks, show)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self, actor: Coroutine[object, object, None]) -> None:
        try:
            await actor
        finally:
            self._is_idle.set()

    async def _until_idle(self, tasks: Iterable["asyncio.Task[None]"], show: Show) -> None:
        """Wait until the actor sleeps or has ended, and let the user read what it said."""
        await self._is_idle.wait()
        self._is_idle.clear()
        for task in tasks:
            if task.done():
                task.result()
        clock = asyncio.get_running_loop().time
        if self._is_unread or clock() - self._shown + self._owed >= _FRAME_SECONDS:
            await show()
            await asyncio.sleep(self._owed)
            self._shown, self._owed, self._is_unread = clock(), 0.0, False


SHUTDOWN_TIMEOUT_SECONDS = 15.0


@contextmanager
def temporary_database(*, durable: bool = True) -> Iterator[Path]:
    """Yield a data directory. After the block, stop PostgreSQL and remove the directory."""
    above = Path(tempfile.mkdtemp(prefix="waybook-demo-"))
    # For root, PostgreSQL runs as another user, who needs access to this directory.
    above.chmod(0o711)
    data_dir = above / "data"
    # Exit normally on these signals, so that the directory is also removed when the terminal is
    # closed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        with attach(data_dir, durable=durable, grace_seconds=0):
            yield data_dir
    finally:
        lock = ControlDirectory(data_dir).supervisor_lock
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT_SECONDS
        while lock.exists() and locks.is_held(lock) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(above, ignore_errors=True)
