"""Simulated clock, temporary database, and event log of the demo.

When all actors sleep, the clock jumps to the time when the next one wakes, so that events always
have the same order.
"""

import asyncio
import heapq
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from rich.text import Text

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.layout import ControlDirectory
from waybook.embedded_postgres.supervisor import attach
from waybook.store.driver.database import Database

Show = Callable[[], Awaitable[None]]
FRAME_SECONDS = 0.15
MAX_SIMULATED = timedelta(days=7)


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
        self._awake = 0
        self._asleep: list[tuple[datetime, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._all_asleep = asyncio.Event()
        self._owed = 0.0
        self._shown = 0.0
        self._broken = False
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

    def add_actor(self, actor: Coroutine[object, object, None]) -> asyncio.Task[None]:
        self._awake += 1
        return asyncio.create_task(self._act(actor))

    async def _act(self, actor: Coroutine[object, object, None]) -> None:
        try:
            await actor
        except Exception:
            self._broken = True
            raise
        finally:
            self._rest()

    async def sleep(self, minutes: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        at = self.now + timedelta(minutes=minutes)
        heapq.heappush(self._asleep, (at, next(self._numbers), woken))
        self._rest()
        try:
            await woken
        except asyncio.CancelledError:
            self._awake += 1
            raise

    def _rest(self) -> None:
        self._awake -= 1
        if not self._awake:
            self._all_asleep.set()

    async def run(self, show: Show) -> None:
        """Run until no actor is sleeping, or one has failed.

        Raises:
            TimeoutError: the actors wait for something that does not happen.
        """
        end = self.now + MAX_SIMULATED
        while True:
            while self._awake:
                self._all_asleep.clear()
                await self._all_asleep.wait()
            await self._let_read(show)
            self._asleep = [s for s in self._asleep if not s[2].done()]
            heapq.heapify(self._asleep)
            if not self._asleep or self._broken:
                return
            at, _, woken = heapq.heappop(self._asleep)
            if at > end:
                raise TimeoutError(f"the demo did not end within {MAX_SIMULATED.days} days")
            await self._pass_until(at, show)
            self._awake += 1
            woken.set_result(None)

    async def _let_read(self, show: Show) -> None:
        owed, self._owed = self._owed, 0.0
        if not owed and _real_time() - self._shown < FRAME_SECONDS:
            return
        until = _real_time() + owed
        await self._show(show)
        await asyncio.sleep(max(0, until - _real_time()))

    async def _show(self, show: Show) -> None:
        await show()
        self._shown = _real_time()

    async def _pass_until(self, at: datetime, show: Show) -> None:
        before, begun = self.now, _real_time()
        seconds = (at - before).total_seconds() / 60 * self.pace.per_minute
        while (left := begun + seconds - _real_time()) > 0:
            await asyncio.sleep(min(FRAME_SECONDS, left))
            self.now = before + (at - before) * min(1, (_real_time() - begun) / seconds)
            if _real_time() - self._shown >= FRAME_SECONDS:
                await self._show(show)
        self.now = at


def _real_time() -> float:
    return asyncio.get_running_loop().time()


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
        _wait_for_the_end(data_dir)
        shutil.rmtree(above, ignore_errors=True)


def _wait_for_the_end(data_dir: Path) -> None:
    lock = ControlDirectory(data_dir).supervisor_lock
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_SECONDS
    while lock.exists() and locks.is_held(lock) and time.monotonic() < deadline:
        time.sleep(0.05)


ENGINE = "waybook"
STYLES = {"ada": "cyan", "ben": "blue", "cleo": "magenta", "mira": "green", ENGINE: "bold"}


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    who: str
    text_body: str
    strong: bool = False

    def text(self) -> Text:
        return Text.assemble(
            (f"{self.at:%H:%M} ", "dim"),
            (f"{self.who:<8}", STYLES[self.who.partition("-")[0]]),
            (self.text_body, "bold" if self.strong else ""),
        )


@dataclass
class EventLog:
    clock: SimulatedClock
    lines: list[Line] = field(default_factory=list)
    listener: Callable[[Line], None] | None = None

    def say(self, who: str, message: str, *, strong: bool = False) -> None:
        line = Line(self.clock.now, who, message, strong)
        self.lines.append(line)
        self.clock.pause_to_read()
        if self.listener is not None:
            self.listener(line)
