"""File locks, which the kernel releases when the process that holds them dies."""

import errno
import os
import sys
import time
from pathlib import Path

from waybook.errors import Unavailable

if sys.platform != "win32":
    import fcntl

POLL_SECONDS = 0.002


def open_lock(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def try_exclusive(descriptor: int) -> bool:
    return _try(descriptor, fcntl.LOCK_EX)


def release(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_held(path: Path) -> bool:
    descriptor = open_lock(path)
    try:
        return not _try(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def wait_exclusive(descriptor: int, deadline: float, purpose: str) -> None:
    _wait(descriptor, fcntl.LOCK_EX, deadline, purpose)


def wait_shared(descriptor: int, deadline: float, purpose: str) -> None:
    _wait(descriptor, fcntl.LOCK_SH, deadline, purpose)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _wait(descriptor: int, kind: int, deadline: float, purpose: str) -> None:
    while not _try(descriptor, kind):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"another process held the lock for too long while this one {purpose}"
            )
        time.sleep(POLL_SECONDS)
