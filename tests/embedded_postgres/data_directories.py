"""Data directories for tests of the embedded PostgreSQL, and their permissions."""

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from embedded_postgres.processes import eventually, keepers
from waybook.embedded_postgres.data_directory import ControlDirectory, ServerDirectory


@contextmanager
def make_data_directory(mode: int = 0o755, parent: Path | None = None) -> Iterator[Path]:
    """Yield a directory with this mode; remove it and its database server afterwards."""
    place = Path(tempfile.mkdtemp(prefix="waybook-test-", dir=parent)).resolve()
    place.chmod(mode)
    try:
        yield place
    finally:
        for control_dir in list(place.rglob("keeper.lock")):
            remove_data_directory(control_dir.parent.parent)
        shutil.rmtree(place)


def remove_data_directory(data_dir: Path) -> None:
    """Stop the supervisor of a data directory; remove the server's files in other places."""
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
    elsewhere = ControlDirectory(data_dir).home
    if elsewhere.exists():
        return ServerDirectory(Path(os.fsdecode(elsewhere.read_bytes())))
    return ServerDirectory(data_dir / "server")


def permissions(*paths: Path) -> dict[Path, tuple[int, int, int]]:
    """Return the mode, owner and group of these paths and of their parent directories."""
    every = {above for path in paths for above in (path, *path.parents)}
    stats = {path: path.lstat() for path in every}
    return {path: (stat.S_IMODE(s.st_mode), s.st_uid, s.st_gid) for path, s in stats.items()}
