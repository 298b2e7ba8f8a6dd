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
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import (
    ADMIN,
    APP,
    OWNER,
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


def _check_durable(connection: ConnectionInfo, *, wanted: bool) -> None:
    if wanted and not connection.durable:
        raise Misconfigured(
            f"the server at {connection.socket_dir} was started without durability, as tests do; "
            "choose another data directory, or wait until its users are gone"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    durable: bool
    grace_seconds: float


def _ensure_running(control_dir: ControlDirectory, options: Options) -> ConnectionInfo:
    """Wait until PostgreSQL is supervised and accepts connections. Return its connection data.

    Raises:
        Misconfigured: PostgreSQL cannot run on this system.
        Unavailable: PostgreSQL did not start in time.
    """
    if running := _running(control_dir):
        return running
    deadline = time.monotonic() + START_SECONDS
    turn = locks.open_lock(control_dir.start_lock)
    try:
        locks.wait_exclusive(turn, deadline, "waited for its turn to start PostgreSQL")
        while (running := _running(control_dir)) is None:
            _check(control_dir, deadline)
            if locks.is_held(control_dir.supervisor_lock):
                time.sleep(POLL_SECONDS)
            else:
                _start_keeper(control_dir, options, deadline)
        return running
    finally:
        os.close(turn)


def _running(control_dir: ControlDirectory) -> ConnectionInfo | None:
    connection = read_connection_info(control_dir.connection)
    if connection is None or not locks.is_held(control_dir.supervisor_lock):
        return None
    answer = probe(Path(connection.socket_dir))
    return connection if answer.condition is ProbeStatus.READY else None


def _start_keeper(control_dir: ControlDirectory, options: Options, deadline: float) -> None:
    rotate(control_dir.log)
    log = open_log(control_dir.log)
    receiver, sender = os.pipe()
    durability = "durable" if options.durable else "fleeting"
    arguments = (control_dir.data_dir, durability, str(options.grace_seconds), str(sender))
    try:
        subprocess.run(  # noqa: S603 - our own command line
            (sys.executable, "-P", "-m", _SUPERVISOR_MODULE, *arguments),
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
        _read_report(control_dir, receiver, deadline)
    finally:
        os.close(receiver)


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


def _check(control_dir: ControlDirectory, deadline: float) -> None:
    if time.monotonic() < deadline:
        return
    connection = read_connection_info(control_dir.connection)
    log = Path(connection.server_home) / "server.log" if connection else control_dir.log
    raise Unavailable(
        f"PostgreSQL in {control_dir.data_dir} takes no connections after {START_SECONDS:.0f} s; "
        f"its log {log} ends:\n{tail(log)}"
    )


class _SupervisorMonitor:
    """Thread that checks every second if a supervisor process runs, and starts one if not."""

    def __init__(self, control_dir: ControlDirectory, options: Options) -> None:
        self._control_dir = control_dir
        self._options = options
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._watch_supervisor, name="waybook-postgres-watch", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, then start a supervisor process if none is running."""
        self._closed.set()
        self._thread.join(_MONITOR_SECONDS)
        self._ensure_supervisor()

    def _watch_supervisor(self) -> None:
        pause = _MONITOR_SECONDS
        while not self._closed.wait(pause):
            pause = (
                _MONITOR_SECONDS
                if self._ensure_supervisor()
                else min(pause * 2, _MAX_PAUSE_SECONDS)
            )

    def _ensure_supervisor(self) -> bool:
        try:
            if not locks.is_held(self._control_dir.supervisor_lock):
                _ensure_running(self._control_dir, self._options)
        except (WaybookError, OSError) as error:
            logger.error("no process supervises the embedded PostgreSQL: %s", error)  # noqa: TRY400 - the message says it
            return False
        return True


class Attachment:
    """Attachment of one client to the embedded server, which runs while any client is attached."""

    def __init__(
        self, data_dir: Path, connection: ConnectionInfo, claim: int, watch: _SupervisorMonitor
    ) -> None:
        self.data_dir = data_dir
        self.version = connection.version
        self.app_dsn = connection.dsn(APP, connection.passwords.app)
        self.owner_dsn = connection.dsn(OWNER, connection.passwords.owner)
        self.admin_dsn = connection.dsn(ADMIN, connection.passwords.admin)
        self._claim: int | None = claim
        self._watch = watch

    def close(self) -> None:
        if self._claim is not None:
            self._watch.close()
            os.close(self._claim)
            self._claim = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    options = Options(durable=durable, grace_seconds=grace_seconds)
    claim = locks.open_lock(control_dir.clients_lock)
    try:
        deadline = time.monotonic() + START_SECONDS
        locks.wait_shared(claim, deadline, "waited for PostgreSQL to stop before starting it again")
        connection = _ensure_running(control_dir, options)
        _check_durable(connection, wanted=durable)
    except OSError as error:
        os.close(claim)
        raise Unavailable(
            f"PostgreSQL in {control_dir.data_dir} is out of reach: {error}"
        ) from error
    except BaseException:
        os.close(claim)
        raise
    return Attachment(
        control_dir.data_dir, connection, claim, _SupervisorMonitor(control_dir, options)
    )
