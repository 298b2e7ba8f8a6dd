"""Directories for embedded PostgreSQL data, and snapshots of file permissions."""

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from embedded_postgres.processes import eventually, keepers
from waybook.embedded_postgres.layout import ControlDirectory, ServerDirectory

MEMORY = Path("/dev/shm")  # noqa: S108 - for directories with random names
#: Minimum free space of a file system in memory. The servers of a test run use less than half.
MIN_FREE_BYTES = 4 * 1024**3


@cache
def parent_directory() -> Path | None:
    """Return a file system in memory, or None for the default directory for temporary files.

    A durable server waits for the disk at every commit, and for seconds when it is created. The
    tests end processes, not the machine: no test depends on what reached the disk.
    """
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    free = os.statvfs(MEMORY)
    return MEMORY if free.f_bavail * free.f_frsize >= MIN_FREE_BYTES else None


@contextmanager
def make_data_directory(mode: int = 0o755) -> Iterator[Path]:
    """Yield a directory with this mode; remove it and its database server afterwards."""
    place = Path(tempfile.mkdtemp(prefix="waybook-test-", dir=parent_directory())).resolve()
    place.chmod(mode)
    try:
        yield place
    finally:
        for control_dir in list(place.rglob("keeper.lock")):
            remove_data_directory(control_dir.parent.parent)
        shutil.rmtree(place)


def remove_data_directory(data_dir: Path) -> None:
    """Stop the data directory's supervisor process and remove its files in other directories."""
    for keeper in keepers(data_dir):
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGTERM)
    eventually(lambda: not keepers(data_dir), "the keeper has ended")
    elsewhere = ControlDirectory(data_dir).home
    if elsewhere.exists():
        home = Path(os.fsdecode(elsewhere.read_bytes()))
        shutil.rmtree(home, ignore_errors=True)
        home.with_name(f"{home.name}.origin").unlink(missing_ok=True)


def server_home(data_dir: Path) -> ServerDirectory:
    """Return the home directory of the database server that this data directory uses."""
    elsewhere = ControlDirectory(data_dir).home
    if elsewhere.exists():
        return ServerDirectory(Path(os.fsdecode(elsewhere.read_bytes())))
    return ServerDirectory(data_dir / "server")


def permissions(*paths: Path) -> dict[Path, tuple[int, int, int]]:
    """Return the mode, owner and group of these paths and of all their parent directories."""
    every = {above for path in paths for above in (path, *path.parents)}
    stats = {path: path.lstat() for path in every}
    return {path: (stat.S_IMODE(s.st_mode), s.st_uid, s.st_gid) for path, s in stats.items()}
