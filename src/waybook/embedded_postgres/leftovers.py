"""Removes PostgreSQL clusters whose data directory was deleted a month ago.

Only clusters outside the data directory are removed. The month gives time to use a copy of the data
directory.
"""

import json
import os
import shutil
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.layout import ControlDirectory, ServerDirectory

CLAIM_SECONDS = 30.0
ORPHAN_SECONDS = 30 * 86_400.0
MAX_RECORD_BYTES = 65_536
PROC = Path("/proc")
SUFFIX = ".origin"


def claim(home: ServerDirectory, control_dir: ControlDirectory) -> int:
    """Record which data directory a cluster belongs to, and lock the record.

    Raises:
        Unavailable: another supervisor process did not release the lock in time.
    """
    path = home.directory.with_name(home.directory.name + SUFFIX)
    record = _locked(path, time.monotonic() + CLAIM_SECONDS)
    is_linked = _link(path, control_dir.origin)
    _write(record, {"data_dir": os.fsdecode(control_dir.data_dir), "linked": is_linked})
    return record


def _locked(path: Path, deadline: float) -> int:
    while True:
        record = locks.open_lock(path)
        locks.wait_exclusive(record, deadline, "waited for another keeper to leave the cluster")
        if os.fstat(record).st_nlink and os.path.samestat(os.fstat(record), path.lstat()):
            return record
        os.close(record)


def _link(path: Path, into: Path) -> bool:
    try:
        if into.exists() and into.samefile(path):
            return True
        into.unlink(missing_ok=True)
        into.hardlink_to(path)
    except OSError:
        return False
    return True


def is_deleted(descriptor: int) -> bool:
    """Return whether the open directory was deleted, not just moved."""
    return os.fstat(descriptor).st_nlink == 0


def remove_orphans(bases: Iterable[Path], now: float | None = None) -> list[Path]:
    """Mark clusters whose data directory was deleted, and remove those marked a month ago."""
    at = time.time() if now is None else now
    records = [record for base in bases for record in sorted(base.glob(f"*{SUFFIX}"))]
    return [home for record in records if (home := _remove_orphan(record, at)) is not None]


def _remove_orphan(path: Path, now: float) -> Path | None:
    home = path.with_suffix("")
    try:
        if not PROC.is_dir() or not stat.S_ISREG(path.lstat().st_mode):
            return None
        record = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if not locks.try_exclusive(record) or not _is_orphan(record) or _is_used(home):
            return None
        if not _is_marked(record, now):
            return None
        if home.is_dir() and not home.is_symlink():
            shutil.rmtree(home)
        path.unlink(missing_ok=True)
    except OSError:
        return None
    finally:
        os.close(record)
    return home


def _is_orphan(record: int) -> bool:
    file_stat = os.fstat(record)
    if file_stat.st_uid != os.geteuid() or file_stat.st_nlink != 1:
        return False
    origin = _read(record)
    data_dir = origin.get("data_dir")
    return origin.get("linked") is True and bool(data_dir) and not os.path.lexists(str(data_dir))


def _is_marked(record: int, now: float) -> bool:
    """Return whether the cluster was marked over a month ago. Mark it if it is not marked."""
    origin = _read(record)
    marked = origin.get("orphaned_at")
    if isinstance(marked, int | float):
        return now - marked > ORPHAN_SECONDS
    _write(record, {**origin, "orphaned_at": now})
    return False


def _read(record: int) -> dict[str, object]:
    try:
        value = json.loads(os.pread(record, MAX_RECORD_BYTES, 0))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _write(record: int, origin: dict[str, object]) -> None:
    os.ftruncate(record, 0)
    os.pwrite(record, json.dumps(origin).encode(), 0)


def _is_used(home: Path) -> bool:
    """Return whether a process may be using the cluster."""
    real, user = home.resolve(), home.lstat().st_uid
    for process in PROC.glob("[0-9]*"):
        try:
            if process.lstat().st_uid == user and _works_in(process, real):
                return True
        except OSError:
            continue
    return False


def _works_in(process: Path, directory: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(directory)
    except PermissionError:
        return True
