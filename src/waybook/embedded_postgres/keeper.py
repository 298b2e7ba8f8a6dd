"""Supervisor process: starts the embedded PostgreSQL, restarts it, and stops it when unused.

If the process runs as root, it creates the directories and then permanently switches to the system
account of the PostgreSQL server.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.cluster import (
    MIN_FREE_BYTES,
    create_cluster,
    find_binaries,
    is_ready,
)
from waybook.embedded_postgres.connection import (
    ConnectionInfo,
    read_connection_info,
    write_private,
)
from waybook.embedded_postgres.data_directory import (
    claim,
    clean_places,
    create_server_directory,
    create_socket_directory,
    drop_privileges,
    is_deleted,
    require_space,
)
from waybook.embedded_postgres.layout import (
    SOCKET_NAME,
    ControlDirectory,
    rotate,
    socket_directory,
    tail,
)
from waybook.embedded_postgres.postmaster import Postmaster, adopt_server, spawn, stop, wait_ready
from waybook.errors import Unavailable, WaybookError

EPHEMERAL = "fleeting"
START_SECONDS = 55.0
HEARTBEAT_SECONDS = 0.2
#: PostgreSQL logs one of these texts if the previous server has not ended completely. A later start
#: may succeed.
_TRANSIENT_ERRORS = ("pre-existing shared memory block", "lock file")


class _Keeper:
    """Runs the PostgreSQL server of one data directory."""

    def __init__(self, control_dir: ControlDirectory, *, durable: bool) -> None:
        """Create the directories and the cluster, unless they exist."""
        #: Lock file. Each client holds a shared lock on it while the client uses the server.
        self._clients = locks.open_lock(control_dir.clients_lock)
        self._home, account = create_server_directory(control_dir)
        # Keep the directory open, because its link count is zero after a deletion. Some file
        # systems always report zero links, so a deletion cannot be detected there.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._data_dir = os.open(control_dir.data_dir, flags)
        self._shows_links = not is_deleted(self._data_dir)
        if account.is_other_user:
            if self._home.directory.parent != control_dir.data_dir:
                claim(self._home, control_dir)
            clean_places()
        self._programs, version = find_binaries(account)
        known = read_connection_info(control_dir.connection)
        new = {name: os.urandom(24).hex() for name in ("admin", "owner", "app")}
        self._socket_dir = socket_directory(self._home)
        connection = ConnectionInfo(
            socket_dir=str(self._socket_dir),
            server_home=str(self._home.directory),
            version=version,
            durable=durable,
            passwords=known.passwords if known else new,
        )
        if connection != known:
            content = json.dumps(connection._asdict(), indent=1).encode()
            write_private(control_dir.connection, content)
        drop_privileges(account)
        os.chdir("/")
        create_socket_directory(self._socket_dir)
        self._durable = durable
        is_prepared = is_ready(self._home, connection.passwords)
        if not is_prepared or (known is not None and known.durable != durable):
            # Stop a running server before the cluster is set up or its durability changes.
            deadline = time.monotonic() + START_SECONDS
            if orphan := adopt_server(self._home, self._socket_dir, deadline):
                stop(orphan)
        if not is_prepared:
            create_cluster(self._home, self._programs, connection.passwords, durable=durable)

    def adopt_or_start(self) -> Postmaster:
        """Take over a running PostgreSQL server, or start one.

        Raises:
            Unavailable: the server does not start; the message contains the last lines of its log.
        """
        home, socket_dir, log = self._home, self._socket_dir, self._home.log
        deadline = time.monotonic() + START_SECONDS
        while True:
            create_socket_directory(socket_dir)
            if orphan := adopt_server(home, socket_dir, deadline):
                return orphan
            begin = log.stat().st_size if log.exists() else 0
            child = spawn(home, self._programs, socket_dir, durable=self._durable)
            if wait_ready(child, socket_dir, deadline):
                return child
            log_tail = tail(log, begin)
            was_killed = (child.poll() or 0) < 0
            passing = was_killed or any(reason in log_tail for reason in _TRANSIENT_ERRORS)
            if time.monotonic() > deadline or not passing:
                stop(child)
                require_space(home.directory, MIN_FREE_BYTES)
                raise Unavailable(
                    f"PostgreSQL did not start in {home.cluster}; its log {log} ends:\n{log_tail}"
                )
            time.sleep(HEARTBEAT_SECONDS / 4)

    def supervise(self, server: Postmaster, grace_seconds: float, signals: list[int]) -> None:
        """Restart PostgreSQL when it dies, and stop it after a grace period without clients."""
        idle_since: float | None = None
        while not signals:
            time.sleep(HEARTBEAT_SECONDS)
            if self._shows_links and is_deleted(self._data_dir):
                stop(server)
                # Keep the cluster: a copy of the deleted data directory may still refer to it.
                if not self._socket_dir.is_relative_to(self._home.directory):
                    shutil.rmtree(self._socket_dir, ignore_errors=True)
                return
            if server.poll() is not None or not (self._socket_dir / SOCKET_NAME).exists():
                # A server without its socket file cannot be reached, so it must be restarted.
                stop(server)
                server = self.adopt_or_start()
            rotate(self._home.log)
            if not locks.try_exclusive(self._clients):
                idle_since = None
                continue
            idle_since = idle_since or time.monotonic()
            if time.monotonic() - idle_since >= grace_seconds:
                # Do not release the clients' lock, so that a new client waits until the server is
                # down.
                break
            locks.release(self._clients)
        stop(server)


def main(data_dir: str, durability: str, grace_seconds: str, report: str) -> None:
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    control_dir = ControlDirectory(Path(data_dir))
    held = locks.open_lock(control_dir.supervisor_lock)
    try:
        # A client that asks whether there is a keeper holds this lock for a moment.
        locks.wait_exclusive(held, time.monotonic() + 1, "became the keeper")
    except Unavailable:
        # Another keeper is at work, whose client was killed since. Our client waits for that one.
        _report(int(report), {"ready": False})
        return
    try:
        keeper = _Keeper(control_dir, durable=durability != EPHEMERAL)
        server = keeper.adopt_or_start()
    except (WaybookError, OSError) as error:
        kind = Unavailable if isinstance(error, OSError) else type(error)
        _report(int(report), {"error": kind.__name__, "message": str(error)})
        raise
    _report(int(report), {"ready": True})
    keeper.supervise(server, float(grace_seconds), signals)


def _report(descriptor: int, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(message).encode() + b"\n")
        os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
