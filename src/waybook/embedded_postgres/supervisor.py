"""Starts the embedded PostgreSQL server, which runs while a Waybook process is attached to it.

A small supervisor process restarts the server when it is killed, and stops it shortly after the
last client has ended.
"""

import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import (
    ConnectionInfo,
    ProbeStatus,
    probe,
    read_connection_info,
)
from waybook.embedded_postgres.data_directory import create_control_directory
from waybook.embedded_postgres.layout import ControlDirectory, open_log, rotate, tail
from waybook.errors import DiskFull, Misconfigured, Unavailable, WaybookError

_GRACE_SECONDS = 2.0
START_SECONDS = 60.0
POLL_SECONDS = 0.02
_SUPERVISOR_MODULE = "waybook.embedded_postgres.keeper"
_MONITOR_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 8.0
logger = logging.getLogger(__name__)


class Attachment:
    """Attachment of one client to the embedded server, which runs while any client is attached.

    A thread checks every second whether a supervisor process runs, and starts one if not.
    """

    def __init__(
        self, control_dir: ControlDirectory, claim: int, *, durable: bool, grace_seconds: float
    ) -> None:
        """Start the server if it does not run. `claim` is an open descriptor of `clients.lock`."""
        self._control_dir = control_dir
        durability = "durable" if durable else "fleeting"
        self._arguments = (control_dir.data_dir, durability, str(grace_seconds))
        connection = self._ensure_running()
        if durable and not connection.durable:
            raise Misconfigured(
                f"the server at {connection.socket_dir} was started without durability, as tests "
                "do; choose another data directory, or wait until no process uses it"
            )
        self.data_dir = control_dir.data_dir
        self.version = connection.version
        self.app_dsn = connection.dsn("app")
        self.owner_dsn = connection.dsn("owner")
        self.admin_dsn = connection.dsn("admin")
        self._claim: int | None = claim
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._watch_supervisor, name="waybook-postgres-watch", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Detach. If no supervisor process is running then, start one, which stops the server."""
        if self._claim is not None:
            self._closed.set()
            self._thread.join(_MONITOR_SECONDS)
            self._ensure_supervisor()
            os.close(self._claim)
            self._claim = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch_supervisor(self) -> None:
        pause = _MONITOR_SECONDS
        while not self._closed.wait(pause):
            is_supervised = self._ensure_supervisor()
            pause = _MONITOR_SECONDS if is_supervised else min(pause * 2, _MAX_PAUSE_SECONDS)

    def _ensure_supervisor(self) -> bool:
        try:
            if not locks.is_held(self._control_dir.supervisor_lock):
                self._ensure_running()
        except (WaybookError, OSError) as error:
            logger.error("no process supervises the embedded PostgreSQL: %s", error)  # noqa: TRY400 - the message says it
            return False
        return True

    def _ensure_running(self) -> ConnectionInfo:
        """Wait until PostgreSQL is supervised and accepts connections. Return its connection data.

        Raises:
            Misconfigured: PostgreSQL cannot run on this system.
            Unavailable: PostgreSQL did not start in time.
        """
        control_dir = self._control_dir
        if running := _running(control_dir):
            return running
        deadline = time.monotonic() + START_SECONDS
        turn = locks.open_lock(control_dir.start_lock)
        try:
            locks.wait_exclusive(turn, deadline, "waited for its turn to start PostgreSQL")
            while (running := _running(control_dir)) is None:
                if time.monotonic() >= deadline:
                    connection = read_connection_info(control_dir.connection)
                    home = connection and Path(connection.server_home)
                    log = home / "server.log" if home else control_dir.log
                    raise Unavailable(
                        f"PostgreSQL in {control_dir.data_dir} accepts no connections after "
                        f"{START_SECONDS:.0f} s; its log {log} ends:\n{tail(log)}"
                    )
                if locks.is_held(control_dir.supervisor_lock):
                    time.sleep(POLL_SECONDS)
                else:
                    self._start_keeper(deadline)
            return running
        finally:
            os.close(turn)

    def _start_keeper(self, deadline: float) -> None:
        rotate(self._control_dir.log)
        log = open_log(self._control_dir.log)
        receiver, sender = os.pipe()
        try:
            subprocess.run(  # noqa: S603 - our own command line
                (sys.executable, "-P", "-m", _SUPERVISOR_MODULE, *self._arguments, str(sender)),
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
            _read_report(self._control_dir, receiver, deadline)
        finally:
            os.close(receiver)


def _running(control_dir: ControlDirectory) -> ConnectionInfo | None:
    connection = read_connection_info(control_dir.connection)
    if connection is None or not locks.is_held(control_dir.supervisor_lock):
        return None
    status, _ = probe(Path(connection.socket_dir))
    return connection if status is ProbeStatus.READY else None


def _read_report(control_dir: ControlDirectory, receiver: int, deadline: float) -> None:
    readable = select.select([receiver], [], [], max(0.0, deadline - time.monotonic()))[0]
    message = os.read(receiver, 65536) if readable else b""
    if not message:
        state = "ended" if readable else "is still starting"
        raise Unavailable(
            f"the process that supervises PostgreSQL in {control_dir.data_dir} {state} and sent no "
            f"message; its log {control_dir.log} ends:\n{tail(control_dir.log)}"
        )
    report = json.loads(message)
    if "error" in report:
        kinds = {kind.__name__: kind for kind in (DiskFull, Misconfigured, Unavailable)}
        raise kinds[report["error"]](report["message"])


def attach(
    data_dir: Path, *, durable: bool = True, grace_seconds: float = _GRACE_SECONDS
) -> Attachment:
    """Start the PostgreSQL server for this data directory, or attach to it if it is running.

    `durable=False` is faster but may lose data, so it is for tests only.

    Raises:
        Misconfigured: the server cannot run on this system, or runs without the requested
        durability.
        Unavailable: the server did not start; the message contains the end of its log.
    """
    if sys.platform == "win32":
        raise Misconfigured(
            "the embedded PostgreSQL does not run on Windows; name a server with --database-url"
        )
    control_dir = create_control_directory(Path(os.path.abspath(data_dir)))  # noqa: PTH100 - symbolic links stay as they are
    claim = locks.open_lock(control_dir.clients_lock)
    try:
        deadline = time.monotonic() + START_SECONDS
        locks.wait_shared(claim, deadline, "waited for PostgreSQL to stop before starting it again")
        return Attachment(control_dir, claim, durable=durable, grace_seconds=grace_seconds)
    except OSError as error:
        os.close(claim)
        raise Unavailable(
            f"PostgreSQL in {control_dir.data_dir} cannot be used: {error}"
        ) from error
    except BaseException:
        os.close(claim)
        raise
