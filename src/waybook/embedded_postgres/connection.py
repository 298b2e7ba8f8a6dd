"""Connection data of the embedded PostgreSQL: passwords and socket, in one private file."""

import json
import os
import socket
import struct
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

DATABASE = "waybook"
SOCKET_NAME = ".s.PGSQL.5432"
ADMIN = "waybook_admin"
OWNER = "waybook_owner"


class ConnectionInfo(NamedTuple):
    socket_dir: str
    server_home: str
    version: str
    durable: bool
    #: Password of each role, by the role's name without `waybook_`.
    passwords: dict[str, str]

    def dsn(self, name: str) -> str:
        host = self.socket_dir.replace("\\", "\\\\").replace("'", "\\'")
        user = f"user=waybook_{name} password={self.passwords[name]}"
        return f"host='{host}' dbname={DATABASE} {user}"


def read_connection_info(path: Path) -> ConnectionInfo | None:
    try:
        return ConnectionInfo(**json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically. Only the owner can read the new file."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(draft, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


ANSWER_SECONDS = 5.0
#: Startup message of PostgreSQL's protocol 3.0, without the length field. Any answer to the message
#: shows that a server listens.
_STARTUP = struct.pack("!i", 196608) + b"user\0waybook_app\0database\0waybook\0\0"
_STARTING_UP = b"57P03"
_PEER_CREDENTIALS = struct.Struct("3i")
_DARWIN_SOL_LOCAL = 0
_DARWIN_LOCAL_PEERPID = 2


class ProbeStatus(StrEnum):
    READY = "ready"
    #: A server is listening but does not accept connections yet.
    BUSY = "busy"
    #: No server is listening.
    SILENT = "silent"


def probe(socket_dir: Path) -> tuple[ProbeStatus, int | None]:
    """Return the status of the server, and the process id that the kernel reports for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(str(socket_dir / SOCKET_NAME))
        except (FileNotFoundError, ConnectionRefusedError):
            return ProbeStatus.SILENT, None
        except (BlockingIOError, TimeoutError):
            return ProbeStatus.BUSY, None
        pid = _listener(connection)
        try:
            connection.sendall(struct.pack("!i", len(_STARTUP) + 4) + _STARTUP)
            reply = connection.recv(4096)
        except OSError:
            return ProbeStatus.BUSY, pid
    is_ready = reply.startswith(b"R") or (reply.startswith(b"E") and _STARTING_UP not in reply)
    return ProbeStatus.READY if is_ready else ProbeStatus.BUSY, pid


def _listener(connection: socket.socket) -> int | None:
    if hasattr(socket, "SO_PEERCRED"):
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        pid: int = _PEER_CREDENTIALS.unpack(raw)[0]
        return pid or None
    try:
        return connection.getsockopt(_DARWIN_SOL_LOCAL, _DARWIN_LOCAL_PEERPID) or None
    except OSError:
        return None
