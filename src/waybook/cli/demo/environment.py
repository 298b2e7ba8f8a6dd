"""Simulated clock and temporary database of the demo."""

import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.data_directory import ControlDirectory
from waybook.embedded_postgres.supervisor import attach
from waybook.store.driver.database import Database

Show = Callable[[], Awaitable[None]]
_FRAME_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class PlaybackSpeed:
    """Speed of the demo: real seconds for each simulated minute, and for reading each log line."""

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
        database.is_simulated = True
        self.pace = pace
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

    async def pass_minutes(self, minutes: float, show: Show) -> None:
        """Advance the simulated clock.

        First show the screen and pause, unless it was shown a moment ago and no log line is new.
        """
        self._owed += minutes * self.pace.per_minute
        real_time = asyncio.get_running_loop().time
        if self._is_unread or real_time() - self._shown + self._owed >= _FRAME_SECONDS:
            await show()
            await asyncio.sleep(self._owed)
            self._shown, self._owed, self._is_unread = real_time(), 0.0, False
        self.now += timedelta(minutes=minutes)


SHUTDOWN_TIMEOUT_SECONDS = 15.0


@contextmanager
def temporary_database(*, durable: bool = True) -> Iterator[Path]:
    """Yield a data directory. After the block, stop PostgreSQL and remove the directory."""
    above = Path(tempfile.mkdtemp(prefix="waybook-demo-"))
    # If root runs this process, PostgreSQL runs as another system user, who needs this directory.
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
