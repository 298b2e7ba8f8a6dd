"""Client side of the embedded server: start its supervisor process, and monitor it.

If the supervisor process is killed, the monitor starts the next one. It checks once more when it is
closed: a server without a supervisor process would never be stopped.
"""

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import ConnectionInfo, read_connection_info
from waybook.embedded_postgres.layout import ControlDirectory, open_log, rotate, tail
from waybook.embedded_postgres.probe import ProbeStatus, probe
from waybook.errors import Misconfigured, Unavailable, WaybookError

START_SECONDS = 60.0
POLL_SECONDS = 0.02
SUPERVISOR_MODULE = "waybook.embedded_postgres.keeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the supervisor process; fixed when it is started."""

    durable: bool
    grace_seconds: float


def ensure_running(desk: ControlDirectory, options: Options) -> ConnectionInfo:
    """Return the connection, once the server has a supervisor process and accepts connections.

    Raises:
        Misconfigured: it cannot run here.
        Unavailable: it did not start.
    """
    if running := _running(desk):
        return running
    deadline = time.monotonic() + START_SECONDS
    turn = locks.open_lock(desk.start_lock)
    try:
        locks.wait_exclusive(turn, deadline, "waited for its turn to start PostgreSQL")
        while (running := _running(desk)) is None:
            _check(desk, deadline)
            if locks.is_held(desk.supervisor_lock):
                time.sleep(POLL_SECONDS)  # it is starting or restarting the server
            else:
                _start_keeper(desk, options, deadline)
        return running
    finally:
        os.close(turn)


def _running(desk: ControlDirectory) -> ConnectionInfo | None:
    connection = read_connection_info(desk.connection)
    if connection is None or not locks.is_held(desk.supervisor_lock):
        return None
    answer = probe(Path(connection.socket_dir))
    return connection if answer.condition is ProbeStatus.READY else None


def _start_keeper(desk: ControlDirectory, options: Options, deadline: float) -> None:
    rotate(desk.log)
    log = open_log(desk.log)
    receiver, sender = os.pipe()
    durability = "durable" if options.durable else "fleeting"
    told = (desk.data_dir, durability, str(options.grace_seconds), str(sender))
    try:
        subprocess.run(  # noqa: S603 - our own command line
            (sys.executable, "-P", "-m", SUPERVISOR_MODULE, *told),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(sender,),
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(log)
        os.close(sender)
    try:
        _hear(desk, receiver, deadline)
    finally:
        os.close(receiver)


def _hear(desk: ControlDirectory, receiver: int, deadline: float) -> None:
    heard = select.select([receiver], [], [], max(0.0, deadline - time.monotonic()))[0]
    word = os.read(receiver, 65536) if heard else b""
    if not word:
        fate = "ended" if heard else "is still at work, so far"
        raise Unavailable(
            f"the keeper of PostgreSQL in {desk.data_dir} {fate} without a word; "
            f"its log {desk.log} ends:\n{tail(desk.log)}"
        )
    said = json.loads(word)
    if "error" in said:
        kind = Misconfigured if said["error"] == Misconfigured.__name__ else Unavailable
        raise kind(said["message"])


def _check(desk: ControlDirectory, deadline: float) -> None:
    if time.monotonic() < deadline:
        return
    connection = read_connection_info(desk.connection)
    log = Path(connection.server_home) / "server.log" if connection else desk.log
    raise Unavailable(
        f"PostgreSQL in {desk.data_dir} takes no connections after {START_SECONDS:.0f} s; "
        f"its log {log} ends:\n{tail(log)}"
    )


MONITOR_SECONDS = 1.0
MAX_PAUSE_SECONDS = 8.0

logger = logging.getLogger(__name__)


class SupervisorMonitor:
    """Thread that checks for the supervisor process once a second until it is closed."""

    def __init__(self, desk: ControlDirectory, options: Options) -> None:
        self._desk = desk
        self._options = options
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._look, name="waybook-postgres-watch", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Check a last time, then stop."""
        self._closed.set()
        self._thread.join(MONITOR_SECONDS)
        self._found()

    def _look(self) -> None:
        pause = MONITOR_SECONDS
        while not self._closed.wait(pause):
            pause = MONITOR_SECONDS if self._found() else min(pause * 2, MAX_PAUSE_SECONDS)

    def _found(self) -> bool:
        """Return whether a supervisor process is running; start one if necessary."""
        try:
            if not locks.is_held(self._desk.supervisor_lock):
                ensure_running(self._desk, self._options)
        except (WaybookError, OSError) as error:
            logger.error("the embedded PostgreSQL has no keeper: %s", error)  # noqa: TRY400 - the message says it
            return False
        return True
