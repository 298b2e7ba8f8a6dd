"""Starts the embedded PostgreSQL server, which runs while a Waybook process is attached to it.

A small supervisor process restarts the server when it is killed, and stops it shortly after the
last client has ended.
"""

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import (
    SOCKET_NAME,
    ConnectionInfo,
    ProbeStatus,
    probe,
    read_connection_info,
)
from waybook.embedded_postgres.data_directory import (
    ENVIRONMENT,
    ControlDirectory,
    ServerDirectory,
    create_control_directory,
    open_log,
    rotate,
    server_arguments,
    socket_argument,
    tail,
)
from waybook.errors import DiskFull, Misconfigured, Unavailable, WaybookError

STOP_POLL_SECONDS = 0.002
_MAX_POLL_SECONDS = 0.1
#: Signals that stop the server, each with the seconds to wait before the next signal.
_FAST_STOP = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0))


ChildServer = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class AdoptedServer:
    """Server that is not a child of this process, with the methods of a child."""

    pid: int
    #: File descriptor of the process, on Linux only. Unlike a process id, it cannot refer to a
    #: later process.
    handle: int | None

    def poll(self) -> int | None:
        """Return None while the process runs."""
        if self.handle is not None:
            return 0 if select.select([self.handle], [], [], 0)[0] else None
        return None if is_alive(self.pid) else 0

    def send_signal(self, number: signal.Signals) -> None:
        try:
            if sys.platform == "linux" and self.handle is not None:
                signal.pidfd_send_signal(self.handle, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return


Postmaster = ChildServer | AdoptedServer


def open_process(pid: int) -> AdoptedServer | None:
    try:
        handle = os.pidfd_open(pid) if sys.platform == "linux" else None
    except ProcessLookupError:
        return None
    return AdoptedServer(pid, handle) if is_alive(pid) else None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # The process belongs to another system user.
    return True


def spawn(home: ServerDirectory, programs: Path, socket_dir: Path, *, durable: bool) -> ChildServer:
    options = [*server_arguments(durable=durable), *socket_argument(socket_dir)]
    log = open_log(home.log)
    try:
        return subprocess.Popen(  # noqa: S603 - our own command line
            (programs / "postgres", "-D", home.cluster, *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home.directory,
            env=ENVIRONMENT,
        )
    finally:
        os.close(log)


def wait_ready(child: ChildServer, socket_dir: Path, deadline: float) -> bool:
    """Wait until PostgreSQL accepts connections. Return False if it ends or the deadline passes."""
    pause = STOP_POLL_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        status, _ = probe(socket_dir)
        if status is ProbeStatus.READY:
            return True
        # A server that is starting logs every probe, so probe it less and less often.
        if status is ProbeStatus.BUSY:
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)
        time.sleep(pause)
    return False


def stop(server: Postmaster, orders: tuple[tuple[signal.Signals, float], ...] = _FAST_STOP) -> None:
    for number, patience in orders:
        if server.poll() is not None:
            return
        server.send_signal(number)
        deadline = time.monotonic() + patience
        while server.poll() is None and time.monotonic() < deadline:
            time.sleep(STOP_POLL_SECONDS)


PROC = Path("/proc")
#: Signals that stop a server in single-user mode, which sets up the cluster.
_SINGLE_USER_STOP = ((signal.SIGTERM, 10.0), (signal.SIGQUIT, 10.0))


def adopt_server(home: ServerDirectory, socket_dir: Path, deadline: float) -> AdoptedServer | None:
    """Return the running PostgreSQL once it accepts connections, or None if no server is running.

    Raises:
        Unavailable: a server listens, but its process cannot be determined.
    """
    while (answer := probe(socket_dir))[0] is not ProbeStatus.SILENT:
        status, pid = answer
        if status is ProbeStatus.READY:
            orphan = open_process(pid) if pid else None
            if orphan and probe(socket_dir)[1] == pid:
                return orphan
            raise Unavailable(
                f"a server that no Waybook process supervises answers at {socket_dir}, and its "
                "process is unknown; stop that server, then try again"
            )
        if time.monotonic() > deadline:
            raise Unavailable(f"the server at {socket_dir} is still starting; try again")
        time.sleep(_MAX_POLL_SECONDS)
    for record in (home.cluster / "postmaster.pid", socket_dir / f"{SOCKET_NAME}.lock"):
        _clear(record, home.cluster)
    return None


def _clear(record: Path, cluster: Path) -> None:
    """Stop the cluster's server if it runs without a socket, or delete an outdated pid file."""
    try:
        number = int(record.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        number = 0
    process = open_process(abs(number)) if number else None
    if process and _works_in(process.pid, cluster):
        stop(process, _FAST_STOP if number > 0 else _SINGLE_USER_STOP)
    elif process or not number:
        record.unlink(missing_ok=True)


def _works_in(pid: int, cluster: Path) -> bool:
    if PROC.is_dir():
        try:
            return (PROC / str(pid) / "cwd").readlink() == cluster.resolve()
        except OSError:
            # The process has ended or belongs to another user, so it is not our server.
            return False
    command = ("/bin/ps", "-o", "command=", "-p", str(pid))
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command line
    return f"-D {cluster}" in shown.stdout


_GRACE_SECONDS = 2.0
START_SECONDS = 60.0
POLL_SECONDS = 0.02
_SUPERVISOR_MODULE = "waybook.embedded_postgres.cluster"
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
