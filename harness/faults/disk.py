"""Disk and data directory of the PostgreSQL server in the fault test."""

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

BALLAST: Final = "ballast"
#: Free bytes that remain on the disk when the fault has filled it.
ROOM_BYTES: Final = 256 * 1024
MAX_FILLS: Final = 50


def unprivileged_user() -> str | None:
    """Return the system account for PostgreSQL, or None if this process does not run as root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def make_disk(disk: Path, megabytes: int | None) -> None:
    """Create the data directory; as root, mount a file system of this size there."""
    disk.mkdir(mode=0o755)
    if megabytes is not None and os.getuid() == 0:
        options = f"size={megabytes}m,mode=0755"
        # A container may not allow a mount. Then the disk is not filled, and the report says so.
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=False)
    user = unprivileged_user()
    if user is not None:
        shutil.chown(disk, user)


def remove_disk(disk: Path) -> None:
    if os.path.ismount(disk):
        subprocess.run(["umount", "--lazy", disk], check=False)


def can_be_filled(disk: Path) -> bool:
    return os.path.ismount(disk)


def fill(disk: Path) -> None:
    """Fill the file system with a file until almost no space is free."""
    with (disk / BALLAST).open("wb") as ballast:
        for _ in range(MAX_FILLS):
            room = shutil.disk_usage(disk).free - ROOM_BYTES
            if room <= 0:
                return
            # The write fails if PostgreSQL has meanwhile used some of the free space.
            with suppress(OSError):
                os.posix_fallocate(ballast.fileno(), ballast.seek(0, os.SEEK_END), room)


def free(disk: Path) -> None:
    (disk / BALLAST).unlink(missing_ok=True)


def initialize(disk: Path, binaries: Path, port: int) -> None:
    """Create a durable PostgreSQL cluster that listens on loopback only."""
    cluster = disk / "cluster"
    made = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    command = [str(binaries / "initdb"), "-D", str(cluster), *made]
    done = subprocess.run(
        command, check=False, user=unprivileged_user(), capture_output=True, text=True, cwd="/"
    )
    if done.returncode:
        raise RuntimeError(f"initdb failed: {done.stderr}")
    settings = {
        "listen_addresses": "'127.0.0.1'",
        "port": str(port),
        "unix_socket_directories": "''",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "max_connections": "100",
        "max_wal_size": "'192MB'",
        "checkpoint_timeout": "'1min'",
        "log_min_messages": "'warning'",
        "restart_after_crash": "on",
        "timezone": "'Asia/Kolkata'",
    }
    with (cluster / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
