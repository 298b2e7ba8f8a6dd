"""Private files, which are written atomically and only their owner can read; and backups."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import IO, TypeAlias

from waybook.errors import InvalidInput, Unavailable
from waybook.store.maintenance import archive, backup, restore
from waybook.store.maintenance.archive import open_archive


@contextmanager
def private_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Yield a temporary file next to `path`, and rename it to `path` after the block.

    Raises:
        InvalidInput: the file exists and `force` is not set, the path is a directory, device or
            pipe, or the directory is not writable.
    """
    _check_absent(path, force=force)
    try:
        descriptor, name = mkstemp(".part", f".{path.name}.", path.parent)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; name another file") from error
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _check_absent(path, force=force)
        draft.replace(path)
        # Write the directory to disk too, because otherwise a crash could undo the renaming.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _check_absent(path: Path, *, force: bool) -> None:
    if path.exists() and not path.is_file():
        kind = "directory" if path.is_dir() else "device or pipe"
        raise InvalidInput(f"{path} is a {kind}; name a file")
    if path.exists() and not force:
        raise InvalidInput(f"the file {path} already exists; choose another one, or add --force")


Manifest: TypeAlias = archive.Manifest
Progress: TypeAlias = archive.Progress


def is_backup(path: Path) -> bool:
    return archive.is_archive(path)


async def back_up(owner_dsn: str, path: Path, *, force: bool, progress: Progress) -> Manifest:
    def write(progress: Progress) -> Manifest:
        with private_file(path, force=force) as file:
            return backup.back_up(owner_dsn, file, progress)

    return await _in_thread(write, progress)


async def restore_backup(
    owner_dsn: str, path: Path, *, progress: Progress, vectors: bool = True
) -> Manifest:
    def load(progress: Progress) -> Manifest:
        with open_archive(path) as opened:
            restore.restore(owner_dsn, opened, progress, vectors=vectors)
            return opened.manifest

    return await _in_thread(load, progress)


def verify_backup(path: Path, *, progress: Progress) -> Manifest:
    with open_archive(path) as opened:
        opened.verify(progress)
        return opened.manifest


async def _in_thread(work: Callable[[Progress], Manifest], progress: Progress) -> Manifest:
    """Run blocking work in a thread. A cancellation stops the work at its next progress report."""
    canceled = threading.Event()

    def report(rows: int, total: int, size: int) -> None:
        if canceled.is_set():
            raise Unavailable("interrupted")
        progress(rows, total, size)

    try:
        return await asyncio.to_thread(work, report)
    except asyncio.CancelledError:
        canceled.set()
        raise
