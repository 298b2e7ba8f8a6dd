"""Advisory file locks, which the kernel releases when their holder dies for any reason."""

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
    """Open the lock file, and create it as private if it is new; return its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def try_exclusive(descriptor: int) -> bool:
    """Take the lock exclusively if it is free; return whether it was taken."""
    return _try(descriptor, fcntl.LOCK_EX)


def try_shared(descriptor: int) -> bool:
    """Take the lock shared if that is possible at once; return whether it was taken."""
    return _try(descriptor, fcntl.LOCK_SH)


def release(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock in exclusive mode."""
    descriptor = open_lock(path)
    try:
        return not try_shared(descriptor)
    finally:
        os.close(descriptor)


def wait_exclusive(descriptor: int, deadline: float, purpose: str) -> None:
    """Take the lock exclusively; wait until `deadline` of the monotonic clock at most.

    Raises:
        Unavailable: another process held it the whole time.
    """
    while not try_exclusive(descriptor):
        _pause(deadline, purpose)


def wait_shared(descriptor: int, deadline: float, purpose: str) -> None:
    """Take the lock shared; wait until `deadline` of the monotonic clock at most.

    Raises:
        Unavailable: another process held it exclusively the whole time.
    """
    while not try_shared(descriptor):
        _pause(deadline, purpose)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _pause(deadline: float, purpose: str) -> None:
    if time.monotonic() > deadline:
        raise Unavailable(f"another process held the lock for too long while this one {purpose}")
    time.sleep(POLL_SECONDS)
