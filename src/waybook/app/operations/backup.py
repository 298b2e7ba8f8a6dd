"""Backup of the whole database to a file, and restoration from the file."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from waybook.app.operations.private_file import private_file
from waybook.errors import Unavailable
from waybook.store.maintenance import archive, backup, restore
from waybook.store.maintenance.archive import open_archive

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
