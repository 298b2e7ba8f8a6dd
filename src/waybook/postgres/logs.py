"""The server's log: one file and its predecessor, neither larger than a few megabytes."""

import os
from pathlib import Path

MAX_BYTES = 5 * 1024 * 1024
TAIL_BYTES = 16384
TAIL_LINES = 12
PROBE_LINE = "FATAL:  the database system is starting up"
"""What PostgreSQL notes whenever we ask whether it is ready; it explains nothing."""


def open_log(path: Path) -> int:
    """Open the log for appending, private if it is new."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def rotate(path: Path, largest: int = MAX_BYTES) -> None:
    """Move the content of a log that has grown too large aside.

    The writer keeps its descriptor and goes on at the beginning, because it appends.
    """
    try:
        if path.stat().st_size <= largest:
            return
    except FileNotFoundError:
        return
    older = path.with_name(f"{path.name}.1")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with path.open("rb+") as log, os.fdopen(os.open(older, flags, 0o600), "wb") as kept:
        log.seek(-largest, os.SEEK_END)
        kept.write(log.read(largest))
        log.truncate(0)


def tail(path: Path, start: int = 0) -> str:
    """The last lines written since `start`, for an error message."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start if start <= size else 0, size - TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if not line.endswith(PROBE_LINE)]
    return "\n".join(telling[-TAIL_LINES:])
