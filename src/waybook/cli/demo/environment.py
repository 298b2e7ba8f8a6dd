"""The story's clock: actors sleep in minutes of the story, and one of them is awake at a time.

The clock moves when everybody sleeps, to the moment the next one wakes: so the story happens in
the same order and at the same times, however fast it is played.

A database for the demo alone, gone afterwards.

What happens in the demo, line by line.
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
#: How often the picture moves while time passes, in seconds.
FRAME_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class PlaybackSpeed:
    """Real seconds for a minute of the story, and for each line a person has to read."""

    per_minute: float
    per_line: float


#: For a plan, whose every step is told, and for a run, of which only the turns are.
SLOW = PlaybackSpeed(0.045, 0.14)
SLOW_RUN = PlaybackSpeed(0.015, 0.1)
FAST = PlaybackSpeed(0, 0)


class SimulatedClock:
    def __init__(self, database: Database, start: datetime, pace: PlaybackSpeed) -> None:
        """Stop the database's clock at the start of the story."""
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
        """What time it is in the story."""
        return self._now

    @now.setter
    def now(self, now: datetime) -> None:
        self._now = self._database.frozen_now = now

    def pause_to_read(self) -> None:
        """Something was said, and a person needs a moment to read it."""
        self._owed += self.pace.per_line

    def add_actor(self, actor: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Let an actor act."""
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
        """Let minutes of the story pass."""
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
        """Play until nobody sleeps any more, or somebody fell."""
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


#: How long the server may take to end once nobody needs it.
SHUTDOWN_TIMEOUT_SECONDS = 15.0


@contextmanager
def temporary_database() -> Iterator[Path]:
    """A data directory that is removed at the end, after its server has ended."""
    above = Path(tempfile.mkdtemp(prefix="waybook-demo-"))
    above.chmod(0o711)  # as root, the server runs as somebody else, who must pass through
    data_dir = above / "data"
    for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal ends the play tidily too
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        with attach(data_dir, grace_seconds=0):
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
    #: A moment worth noticing.
    strong: bool = False

    def text(self) -> Text:
        """The line, coloured by who acts."""
        return Text.assemble(
            (f"{self.at:%H:%M} ", "dim"),
            (f"{self.who:<8}", STYLES[self.who.partition("-")[0]]),
            (self.text_body, "bold" if self.strong else ""),
        )


@dataclass
class EventLog:
    """The lines so far; whoever listens hears each as it comes."""

    clock: SimulatedClock
    lines: list[Line] = field(default_factory=list)
    listener: Callable[[Line], None] | None = None

    def say(self, who: str, said: str, *, strong: bool = False) -> None:
        """Add a line."""
        line = Line(self.clock.now, who, said, strong)
        self.lines.append(line)
        self.clock.pause_to_read()
        if self.listener is not None:
            self.listener(line)
