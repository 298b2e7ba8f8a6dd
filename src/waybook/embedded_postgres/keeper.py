"""Supervisor process: starts the embedded PostgreSQL, restarts it, and stops it when unused.

If the process runs as root, it creates the directories and then permanently switches to the user of
the PostgreSQL server.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.cluster import (
    MIN_FREE_BYTES,
    Binaries,
    create_cluster,
    find_binaries,
    is_ready,
)
from waybook.embedded_postgres.connection import (
    ConnectionInfo,
    new_passwords,
    read_connection_info,
    write_connection_info,
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
    ServerDirectory,
    rotate,
    socket_directory,
    tail,
)
from waybook.embedded_postgres.postmaster import Postmaster, adopt_server, spawn, stop, wait_ready
from waybook.errors import Unavailable, WaybookError

EPHEMERAL = "fleeting"
START_SECONDS = 55.0
HEARTBEAT_SECONDS = 0.2
#: PostgreSQL logs one of these texts if the previous server has not ended completely. Another
#: attempt may succeed.
_TRANSIENT_ERRORS = ("pre-existing shared memory block", "lock file")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    home: ServerDirectory
    binaries: Binaries
    connection: ConnectionInfo
    #: File descriptor of the lock that each client shares while it uses the server.
    clients: int
    grace_seconds: float
    #: File descriptor of the data directory, which shows whether the directory was deleted.
    data_dir: int

    @property
    def socket_dir(self) -> Path:
        return Path(self.connection.socket_dir)


def main(data_dir: str, durability: str, grace_seconds: str, report: str) -> None:
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    control_dir = ControlDirectory(Path(data_dir))
    durable = durability != EPHEMERAL
    held = locks.open_lock(control_dir.supervisor_lock)
    try:
        locks.wait_exclusive(held, time.monotonic() + 5, "became the keeper")
        server_context = _prepare_server(
            control_dir, durable=durable, grace_seconds=float(grace_seconds)
        )
        server = _adopt_or_start(server_context)
    except WaybookError as error:
        _report(int(report), {"error": type(error).__name__, "message": error.message})
        raise
    except OSError as error:
        _report(int(report), {"error": Unavailable.__name__, "message": str(error)})
        raise
    _report(int(report), {"ready": True})
    _supervise(server_context, server, signals)


def _adopt_or_start(server_context: ServerContext) -> Postmaster:
    """Take over a running PostgreSQL server, or start one.

    Raises:
        Unavailable: the server does not start; the message contains the last lines of its log.
    """
    deadline = time.monotonic() + START_SECONDS
    log = server_context.home.log
    while True:
        create_socket_directory(server_context.socket_dir)
        if orphan := adopt_server(server_context.home, server_context.socket_dir, deadline):
            return orphan
        begin = log.stat().st_size if log.exists() else 0
        durable = server_context.connection.durable
        child = spawn(
            server_context.home, server_context.binaries, server_context.socket_dir, durable=durable
        )
        if wait_ready(child, server_context.socket_dir, deadline):
            return child
        log_tail = tail(log, begin)
        was_killed = (child.poll() or 0) < 0
        passing = was_killed or any(reason in log_tail for reason in _TRANSIENT_ERRORS)
        if time.monotonic() > deadline or not passing:
            stop(child)
            require_space(server_context.home.directory, MIN_FREE_BYTES)
            raise Unavailable(
                f"PostgreSQL did not start in {server_context.home.cluster}; "
                f"its log {log} ends:\n{log_tail}"
            )
        time.sleep(HEARTBEAT_SECONDS / 4)


def _supervise(server_context: ServerContext, server: Postmaster, signals: list[int]) -> None:
    """Restart PostgreSQL when it dies, and stop it after a grace period without clients."""
    idle_since: float | None = None
    # Some file systems always report zero links, so the link count cannot reveal a deletion.
    shows_links = not is_deleted(server_context.data_dir)
    while not signals:
        time.sleep(HEARTBEAT_SECONDS)
        if shows_links and is_deleted(server_context.data_dir):
            stop(server)
            # Keep the cluster: a copy of the deleted data directory may still refer to it.
            if not server_context.socket_dir.is_relative_to(server_context.home.directory):
                shutil.rmtree(server_context.socket_dir, ignore_errors=True)
            return
        if server.poll() is not None or not (server_context.socket_dir / SOCKET_NAME).exists():
            # A server without its socket file cannot be reached, so it must be restarted.
            stop(server)
            server = _adopt_or_start(server_context)
        rotate(server_context.home.log)
        if not locks.try_exclusive(server_context.clients):
            idle_since = None
            continue
        idle_since = idle_since or time.monotonic()
        if time.monotonic() - idle_since >= server_context.grace_seconds:
            # Keep the clients' lock, so that a new client waits until the server is down.
            break
        locks.release(server_context.clients)
    stop(server)


def _prepare_server(
    control_dir: ControlDirectory, *, durable: bool, grace_seconds: float
) -> ServerContext:
    clients = locks.open_lock(control_dir.clients_lock)
    home, account = create_server_directory(control_dir)
    is_apart = home.directory.parent != control_dir.data_dir
    data_dir = os.open(control_dir.data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if is_apart and account.is_other_user:
        claim(home, control_dir)
    if account.is_other_user:
        clean_places()
    binaries = find_binaries(account)
    known = read_connection_info(control_dir.connection)
    connection = ConnectionInfo(
        socket_dir=str(socket_directory(home)),
        server_home=str(home.directory),
        version=binaries.version,
        durable=durable,
        passwords=known.passwords if known else new_passwords(),
    )
    if connection != known:
        write_connection_info(control_dir.connection, connection)
    drop_privileges(account)
    os.chdir("/")
    create_socket_directory(Path(connection.socket_dir))
    is_prepared = is_ready(home, connection.passwords)
    if not is_prepared or (known is not None and known.durable != durable):
        # Stop a running server that has another durability.
        orphan = adopt_server(home, Path(connection.socket_dir), time.monotonic() + START_SECONDS)
        if orphan is not None:
            stop(orphan)
    if not is_prepared:
        create_cluster(home, binaries, connection.passwords, durable=durable)
    return ServerContext(
        home=home,
        binaries=binaries,
        connection=connection,
        clients=clients,
        grace_seconds=grace_seconds,
        data_dir=data_dir,
    )


def _report(descriptor: int, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(message).encode() + b"\n")
        os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
