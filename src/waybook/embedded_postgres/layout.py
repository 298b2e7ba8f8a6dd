"""Files, settings and logs of the embedded PostgreSQL.

::

    DATA_DIR/
    ├── keeper/            shared by clients and supervisor process, 0700
    │   ├── clients.lock   shared lock of every client, held while it runs
    │   ├── start.lock     exclusive lock of a client, held while it starts the server
    │   ├── keeper.lock    exclusive lock of the supervisor process, held while it runs
    │   ├── keeper.log     log of the supervisor process
    │   ├── serve.lock     exclusive lock of `waybook serve`, held while it runs
    │   ├── pages.lock     exclusive lock of the process that serves the dashboard
    │   ├── pages.json     URL and process of the last holder of pages.lock, 0600
    │   ├── home           path of the server's directory, if it is elsewhere
    │   ├── origin         hard link to a record next to that directory, see `remove_orphans`
    │   └── connection.json   passwords and socket, 0600
    └── server/            for the PostgreSQL server only, 0700
        ├── cluster/       PostgreSQL's data directory
        ├── bootstrapped   digest of the bootstrap statements that were applied
        ├── server.log     at most two files of bounded size
        └── socket/

If Waybook runs as root, the server runs as another system user. If that user cannot reach the data
directory (for example below /root), `server/` is /var/lib/waybook/<hash of the data directory>
instead, and `keeper/home` contains that path. After the data directory is deleted, `remove_orphans`
removes `server/`.

A socket's path is limited to 107 bytes, and drivers split it at commas. If the path would be longer
or contain a comma, the socket is in /tmp/waybook-<uid>-<hash>, a private directory.

The server is durable by default, uses few resources, and accepts connections only through its
socket. Its log consists of the current file and the previous one, each at most a few megabytes.
"""

import hashlib
import os
from pathlib import Path

SOCKET_NAME = ".s.PGSQL.5432"
_MAX_SOCKET_PATH_LENGTH = 106
_SHORT_SOCKET_BASE = Path("/tmp")  # noqa: S108 - the directory below it is checked to be ours and private


class ControlDirectory:
    """The directory that clients and the supervisor process share."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.directory = data_dir / "keeper"
        self.clients_lock = self.directory / "clients.lock"
        self.start_lock = self.directory / "start.lock"
        self.supervisor_lock = self.directory / "keeper.lock"
        self.serve_lock = self.directory / "serve.lock"
        self.pages_lock = self.directory / "pages.lock"
        self.pages_record = self.directory / "pages.json"
        self.log = self.directory / "keeper.log"
        self.home = self.directory / "home"
        self.origin = self.directory / "origin"
        self.connection = self.directory / "connection.json"


class ServerDirectory:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = directory / "cluster"
        self.bootstrapped = directory / "bootstrapped"
        self.log = directory / "server.log"


def fingerprint(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def socket_directory(home: ServerDirectory) -> Path:
    directory = home.directory / "socket"
    path = os.fsencode(directory / SOCKET_NAME)
    if len(path) <= _MAX_SOCKET_PATH_LENGTH and b"," not in path:
        return directory
    return _SHORT_SOCKET_BASE / f"waybook-{os.geteuid()}-{fingerprint(home.directory)}"


BASE = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "io_method": "sync",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
    "scram_iterations": "1024",  # The passwords are random, so slow hashing would protect nothing.
    "logging_collector": "off",  # The supervisor limits the size of the log.
    "log_checkpoints": "off",
    # Autovacuum runs often, so that a new table soon gets statistics and good query plans.
    "autovacuum_naptime": "5s",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
EPHEMERAL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

#: Environment variables of the server, which inherits none from the client that starts it.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def server_arguments(*, durable: bool) -> list[str]:
    chosen = BASE | (_DURABLE if durable else EPHEMERAL)
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]


def socket_argument(directory: Path) -> list[str]:
    """Return the `postgres` arguments that set the socket directory.

    Commas in the path are quoted.
    """
    quoted = os.fspath(directory).replace('"', '""')
    return ["-c", f'unix_socket_directories="{quoted}"']


MAX_BYTES = 5 * 1024 * 1024
_TAIL_BYTES = 16384
_TAIL_LINES = 12
#: While PostgreSQL starts, it logs this line for each `probe`. Messages to users omit the line.
_PROBE_LINE = "FATAL:  the database system is starting up"


def open_log(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def rotate(path: Path, largest: int = MAX_BYTES) -> None:
    """If a log file exceeds `largest` bytes, move its end to a second file and empty it."""
    try:
        if path.stat().st_size <= largest:
            return
    except FileNotFoundError:
        return
    older = path.with_name(f"{path.name}.1")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with path.open("rb+") as log, os.fdopen(os.open(older, flags, 0o600), "wb") as target:
        log.seek(-largest, os.SEEK_END)
        target.write(log.read(largest))
        log.truncate(0)


def tail(path: Path, start: int = 0) -> str:
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start if start <= size else 0, size - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if not line.endswith(_PROBE_LINE)]
    return "\n".join(telling[-_TAIL_LINES:])
