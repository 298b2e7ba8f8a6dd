"""Processes that are restarted when they end, as an init system does."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

RESTART_SECONDS: Final = 0.1
POLL_SECONDS: Final = 0.02
EXIT_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Command line, environment variables and system account of a process."""

    words: Sequence[str]
    log: Path
    environment: Mapping[str, str] | None = None
    #: System account that runs the process, if this test runs as root.
    user: str | None = None


@dataclass(slots=True)
class Supervised:
    """Process that is restarted when it ends, unless it was stopped."""

    name: str
    command: Callable[[], Command]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    #: Time of the last start.
    started: float = 0.0
    #: While this event is not set, the process is not restarted.
    may_run: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.may_run.set()
        self._task = asyncio.create_task(self._keep_alive())

    async def _keep_alive(self) -> None:
        while True:
            await self.may_run.wait()
            self.process = self._spawn()
            self.starts += 1
            self.started = time.monotonic()
            await self._ended(self.process)
            await asyncio.sleep(RESTART_SECONDS)

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = self.command()
        with command.log.open("ab") as log:
            return subprocess.Popen(
                command.words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=command.environment,
                user=command.user,
                cwd="/",
            )

    async def _ended(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            await asyncio.sleep(POLL_SECONDS)

    @property
    def pid(self) -> int | None:
        if self.process is None or self.process.poll() is not None:
            return None
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        if (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_tree(self) -> None:
        """Kill the process and its children at the same time, as if the machine had crashed."""
        if (pid := self.pid) is None:
            return
        family = [pid, *children_of(pid)]
        for member in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Stop the process, without a restart; return the seconds until its end."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        begun = time.monotonic()
        if self.process is not None and self.pid is not None:
            self.send(signal.SIGCONT)
            self.send(number)
            try:
                async with asyncio.timeout(EXIT_SECONDS):
                    await self._ended(self.process)
            except TimeoutError:
                self.kill_tree()
                await self._ended(self.process)
        return time.monotonic() - begun


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
