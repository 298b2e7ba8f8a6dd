"""A database for the demo alone, gone afterwards."""

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waybook.postgres import locks
from waybook.postgres.layout import ControlDirectory
from waybook.postgres.supervisor import attach

#: How long the server may take to end once nobody needs it.
SHUTDOWN_TIMEOUT_SECONDS = 15.0


@contextmanager
def temporary_database() -> Iterator[Path]:
    """A data directory that is removed at the end, after its server has ended."""
    above = Path(tempfile.mkdtemp(prefix="waybook-demo-"))
    above.chmod(0o711)  # as root, the server runs as somebody else, who must pass through
    data_dir = above / "data"
    for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal ends the play tidily too
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        with attach(data_dir, grace_seconds=0):
            yield data_dir
    finally:
        _wait_for_the_end(data_dir)
        shutil.rmtree(above, ignore_errors=True)


def _wait_for_the_end(data_dir: Path) -> None:
    lock = ControlDirectory(data_dir).supervisor_lock
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_SECONDS
    while lock.exists() and locks.is_held(lock) and time.monotonic() < deadline:
        time.sleep(0.05)
