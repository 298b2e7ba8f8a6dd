"""Deals with what a killed keeper left behind: a running server, or a stale pid file.

A number in a pid file proves nothing. A process is ours if the kernel says that it listens on
the socket in our private directory, or that it works in our cluster; no other is ever signalled.
"""

import signal
import subprocess
import time
from pathlib import Path

from waybook.errors import Unavailable
from waybook.postgres.layout import SOCKET_NAME, ServerDirectory
from waybook.postgres.postmaster import (
    FAST_STOP,
    MAX_POLL_SECONDS,
    AdoptedServer,
    open_process,
    stop,
)
from waybook.postgres.probe import ProbeStatus, probe

PROC = Path("/proc")
SINGLE_USER_STOP = ((signal.SIGTERM, 10.0), (signal.SIGQUIT, 10.0))
"""For a single-user session, which ends with its input anyway."""


def adopt_server(home: ServerDirectory, socket_dir: Path, deadline: float) -> AdoptedServer | None:
    """The server that is running already, once it takes connections; nothing if there is none.

    Raises:
        Unavailable: there is one, but it cannot be told which process it is.
    """
    while (answer := probe(socket_dir)).condition is not ProbeStatus.SILENT:
        if answer.condition is ProbeStatus.READY:
            return _listener(answer.pid, socket_dir)
        if time.monotonic() > deadline:
            raise Unavailable(f"the server at {socket_dir} is still starting; try again")
        time.sleep(MAX_POLL_SECONDS)
    for record in (home.cluster / "postmaster.pid", socket_dir / f"{SOCKET_NAME}.lock"):
        _clear(record, home.cluster)
    return None


def _clear(record: Path, cluster: Path) -> None:
    """Nobody listens: end a server of ours that lost its socket, or drop a stale record of one.

    PostgreSQL would take whatever process the record names for a server, dead and unreaped too.
    """
    number = _number(record)
    process = open_process(abs(number)) if number else None
    if process and _works_in(process.pid, cluster):
        stop(process, FAST_STOP if number > 0 else SINGLE_USER_STOP)
    elif process or not number:
        record.unlink(missing_ok=True)


def _listener(pid: int | None, socket_dir: Path) -> AdoptedServer:
    orphan = open_process(pid) if pid else None
    if orphan and probe(socket_dir).pid == pid:  # still the same, so the handle is the listener's
        return orphan
    raise Unavailable(
        f"a server without a keeper answers at {socket_dir}, and the system does not tell which "
        "process it is; stop that server, then try again"
    )


def _number(pid_file: Path) -> int:
    """The number in the file's first line, negative for a single-user session; 0 for none."""
    try:
        return int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return 0


def _works_in(pid: int, cluster: Path) -> bool:
    if PROC.is_dir():
        try:
            return (PROC / str(pid) / "cwd").readlink() == cluster.resolve()
        except OSError:
            return False  # gone, or another user's, and ours runs as we do
    command = ("/bin/ps", "-o", "command=", "-p", str(pid))
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command line
    return f"-D {cluster}" in shown.stdout
