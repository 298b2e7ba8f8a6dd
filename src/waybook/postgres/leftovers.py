"""Clusters outside of their data directory: recorded when made, removed when that is deleted.

Beside such a cluster lies `<its name>.origin`, in a directory that only root can write to. The
file is linked into the data directory too, so its number of links tells whether that was deleted;
a data directory that was moved keeps its link. The keeper locks the file for as long as it lives.
A cluster is removed only if its record was linked and no longer is, and no process works in it.
Across file systems there is no such link, and only a running keeper cleans up.
"""

import json
import os
import shutil
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from waybook.postgres import locks
from waybook.postgres.layout import Desk, ServerHome

CLAIM_SECONDS = 30.0
MAX_RECORD_BYTES = 65_536
PROC = Path("/proc")
SUFFIX = ".origin"


def claim(home: ServerHome, desk: Desk) -> int:
    """Record whose cluster this is, and lock the record until this process ends.

    Raises:
        Unavailable: another keeper did not give it up in time.
    """
    path = home.directory.with_name(home.directory.name + SUFFIX)
    record = _locked(path, time.monotonic() + CLAIM_SECONDS)
    told = {"data_dir": os.fsdecode(desk.data_dir), "linked": _link(path, desk.origin)}
    os.ftruncate(record, 0)
    os.pwrite(record, json.dumps(told).encode(), 0)
    return record


def _locked(path: Path, deadline: float) -> int:
    while True:
        record = locks.open_lock(path)
        locks.wait_exclusive(record, deadline, "waited for another keeper to leave the cluster")
        if os.fstat(record).st_nlink and os.path.samestat(os.fstat(record), path.lstat()):
            return record
        os.close(record)


def _link(path: Path, into: Path) -> bool:
    """Link the record into the data directory; returns whether that is possible."""
    try:
        if into.exists() and into.samefile(path):
            return True
        into.unlink(missing_ok=True)
        into.hardlink_to(path)
    except OSError:
        return False
    return True


def is_deleted(descriptor: int) -> bool:
    """Return whether the open directory was removed; one that was only moved was not."""
    return os.fstat(descriptor).st_nlink == 0


def empty(directory: Path) -> None:
    """Remove all that is in a directory; its parent may be another user's, so it stays itself."""
    for inner in directory.iterdir():
        if inner.is_dir() and not inner.is_symlink():
            shutil.rmtree(inner, ignore_errors=True)
        else:
            inner.unlink(missing_ok=True)


def remove_orphans(bases: Iterable[Path]) -> list[Path]:
    """Remove the clusters whose data directory is gone; returns which they were.

    Run as root, in directories that only root can write to.
    """
    records = [record for base in bases for record in sorted(base.glob(f"*{SUFFIX}"))]
    return [home for record in records if (home := _removed(record)) is not None]


def _removed(path: Path) -> Path | None:
    home = path.with_suffix("")
    if not PROC.is_dir() or not stat.S_ISREG(path.lstat().st_mode):
        return None
    record = locks.open_lock(path)
    try:
        if not locks.try_exclusive(record) or not _is_orphan(record) or _is_used(home):
            return None
        if home.is_dir() and not home.is_symlink():
            shutil.rmtree(home)
        path.unlink(missing_ok=True)
    except OSError:
        return None  # another process was faster, or the next start tries again
    finally:
        os.close(record)
    return home


def _is_orphan(record: int) -> bool:
    found = os.fstat(record)
    if found.st_uid != os.geteuid() or found.st_nlink != 1:
        return False
    try:
        told = json.loads(os.pread(record, MAX_RECORD_BYTES, 0))
        return told["linked"] is True and not os.path.lexists(told["data_dir"])
    except (ValueError, KeyError, TypeError):
        return False


def _is_used(home: Path) -> bool:
    """Return whether a process works in the cluster, as every process of PostgreSQL does."""
    for process in PROC.glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(home):
                return True
        except OSError:
            continue  # it has just ended
    return False
