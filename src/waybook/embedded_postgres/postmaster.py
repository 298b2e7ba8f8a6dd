"""A running PostgreSQL server: a child process, or one taken over from a dead supervisor.

The process id in a file may have been reused. A process is therefore treated as our server only if
the kernel confirms that it belongs to the cluster.
"""

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from waybook.embedded_postgres import layout
from waybook.embedded_postgres.connection import ProbeStatus, probe
from waybook.embedded_postgres.layout import SOCKET_NAME, ServerDirectory, open_log
from waybook.errors import Unavailable

POLL_SECONDS = 0.002
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
    options = [*layout.server_arguments(durable=durable), *layout.socket_argument(socket_dir)]
    log = open_log(home.log)
    try:
        return subprocess.Popen(  # noqa: S603 - our own command line
            (programs / "postgres", "-D", home.cluster, *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home.directory,
            env=layout.ENVIRONMENT,
        )
    finally:
        os.close(log)


def wait_ready(child: ChildServer, socket_dir: Path, deadline: float) -> bool:
    """Wait until PostgreSQL accepts connections. Return False if it ends or the deadline passes."""
    pause = POLL_SECONDS
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
            time.sleep(POLL_SECONDS)


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
