"""Checks whether PostgreSQL accepts connections on a socket, without a password or a driver."""

import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from waybook.embedded_postgres.layout import SOCKET_NAME

ANSWER_SECONDS = 5.0
PROTOCOL_VERSION = 196608
STARTING_UP = b"57P03"
PEER_CREDENTIALS = struct.Struct("3i")
DARWIN_SOL_LOCAL = 0
DARWIN_LOCAL_PEERPID = 2


class ProbeStatus(StrEnum):
    READY = "ready"
    BUSY = "busy"
    """A server is listening but accepts no connections now."""
    SILENT = "silent"
    """No server is listening."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    condition: ProbeStatus
    pid: int | None = None
    """The process that listens, as the kernel knows it."""


def probe(socket_dir: Path) -> ProbeResult:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(str(socket_dir / SOCKET_NAME))
        except (FileNotFoundError, ConnectionRefusedError):
            return ProbeResult(ProbeStatus.SILENT)
        except (BlockingIOError, TimeoutError):
            return ProbeResult(ProbeStatus.BUSY)
        pid = _listener(connection)
        try:
            connection.sendall(_greeting())
            reply = connection.recv(4096)
        except OSError:
            return ProbeResult(ProbeStatus.BUSY, pid)
    return ProbeResult(_condition(reply), pid)


def _greeting() -> bytes:
    body = struct.pack("!i", PROTOCOL_VERSION) + b"user\0waybook_app\0database\0waybook\0\0"
    return struct.pack("!i", len(body) + 4) + body


def _condition(reply: bytes) -> ProbeStatus:
    if reply.startswith(b"R"):
        return ProbeStatus.READY
    if reply.startswith(b"E") and STARTING_UP not in reply:
        return ProbeStatus.READY
    return ProbeStatus.BUSY


def _listener(connection: socket.socket) -> int | None:
    if hasattr(socket, "SO_PEERCRED"):
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size)
        pid: int = PEER_CREDENTIALS.unpack(raw)[0]
        return pid or None
    try:
        return connection.getsockopt(DARWIN_SOL_LOCAL, DARWIN_LOCAL_PEERPID) or None
    except OSError:
        return None
