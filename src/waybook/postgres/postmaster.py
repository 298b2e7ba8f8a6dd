"""One running PostgreSQL: our child, or one that outlived its keeper and was taken over."""

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from waybook.postgres import settings
from waybook.postgres.binaries import Binaries
from waybook.postgres.layout import ServerDirectory
from waybook.postgres.logs import open_log
from waybook.postgres.probe import ProbeStatus, probe

POLL_SECONDS = 0.002
MAX_POLL_SECONDS = 0.1
FAST_STOP = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))
"""What to send, and how long to wait for it: first fast, then at once (and recover later)."""


@dataclass(frozen=True, slots=True)
class ChildServer:
    """A server we started."""

    process: subprocess.Popen[bytes]

    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def was_killed(self) -> bool:
        """Whether a signal ended it, and not its own doing."""
        return (self.process.poll() or 0) < 0

    def send(self, number: signal.Signals) -> None:
        """Signal it; its number cannot have passed to another before we reaped it."""
        self.process.send_signal(number)


@dataclass(frozen=True, slots=True)
class AdoptedServer:
    """A server that another keeper started."""

    pid: int
    handle: int | None
    """Of the process itself, where the system has such a thing: it cannot pass to another."""

    def is_gone(self) -> bool:
        """Whether it has ended."""
        if self.handle is not None:
            return bool(select.select([self.handle], [], [], 0)[0])
        return not is_alive(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Signal it, if it is still there."""
        try:
            if sys.platform == "linux" and self.handle is not None:
                signal.pidfd_send_signal(self.handle, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return


Postmaster = ChildServer | AdoptedServer


def open_process(pid: int) -> AdoptedServer | None:
    """A handle on this process, whatever it is, if it lives."""
    try:
        handle = os.pidfd_open(pid) if sys.platform == "linux" else None
    except ProcessLookupError:
        return None
    return AdoptedServer(pid, handle) if is_alive(pid) else None


def is_alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def spawn(
    home: ServerDirectory, binaries: Binaries, socket_dir: Path, *, durable: bool
) -> ChildServer:
    """Start the server, and wait for nothing."""
    options = [*settings.server_arguments(durable=durable), *settings.socket_argument(socket_dir)]
    log = open_log(home.log)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            (binaries.postgres, "-D", home.cluster, *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home.directory,
            env=settings.ENVIRONMENT,
        )
    finally:
        os.close(log)
    return ChildServer(process)


def wait_ready(child: ChildServer, socket_dir: Path, deadline: float) -> bool:
    """Wait until the server takes connections, ends, or the deadline has passed."""
    pause = POLL_SECONDS
    while not child.is_gone() and time.monotonic() < deadline:
        condition = probe(socket_dir).condition
        if condition is ProbeStatus.READY:
            return True
        if condition is ProbeStatus.BUSY:  # it notes every question in its log: ask less and less
            pause = min(pause * 1.5, MAX_POLL_SECONDS)
        time.sleep(pause)
    return False


def stop(server: Postmaster, orders: tuple[tuple[signal.Signals, float], ...] = FAST_STOP) -> None:
    """Stop it fast: open transactions are rolled back, everything committed is kept."""
    for number, patience in orders:
        if server.is_gone():
            return
        server.send(number)
        deadline = time.monotonic() + patience
        while not server.is_gone() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
