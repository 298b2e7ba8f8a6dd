"""Creates the data directories, their layout and settings, and selects the account for PostgreSQL.

PostgreSQL never runs as root.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import SOCKET_NAME, write_private
from waybook.errors import DiskFull, Misconfigured

_MAX_SOCKET_PATH_LENGTH = 106
_SHORT_SOCKET_BASE = Path("/tmp")  # noqa: S108 - the directory below it is checked to be ours and private


class ControlDirectory:
    """The directory that clients and the supervisor process share."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.directory = data_dir / "keeper"
        self.clients_lock = self.directory / "clients.lock"
        self.start_lock = self.directory / "start.lock"
        self.supervisor_lock = self.directory / "keeper.lock"
        self.serve_lock = self.directory / "serve.lock"
        self.pages_lock = self.directory / "pages.lock"
        self.pages_record = self.directory / "pages.json"
        self.log = self.directory / "keeper.log"
        self.home = self.directory / "home"
        self.origin = self.directory / "origin"
        self.connection = self.directory / "connection.json"


class ServerDirectory:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = directory / "cluster"
        self.bootstrapped = directory / "bootstrapped"
        self.log = directory / "server.log"


def fingerprint(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def socket_directory(home: ServerDirectory) -> Path:
    directory = home.directory / "socket"
    path = os.fsencode(directory / SOCKET_NAME)
    if len(path) <= _MAX_SOCKET_PATH_LENGTH and b"," not in path:
        return directory
    return _SHORT_SOCKET_BASE / f"waybook-{os.geteuid()}-{fingerprint(home.directory)}"


BASE = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "io_method": "sync",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
    "scram_iterations": "1024",  # The passwords are random, so slow hashing would protect nothing.
    "logging_collector": "off",  # The supervisor limits the size of the log.
    "log_checkpoints": "off",
    # Autovacuum runs often, so that a new table soon gets statistics and good query plans.
    "autovacuum_naptime": "5s",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}

_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
EPHEMERAL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

#: Environment variables of the server, which inherits none from the client that starts it.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def server_arguments(*, durable: bool) -> list[str]:
    chosen = BASE | (_DURABLE if durable else EPHEMERAL)
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]


def socket_argument(directory: Path) -> list[str]:
    """Return the `postgres` arguments that set the socket directory.

    Commas in the path are quoted.
    """
    quoted = os.fspath(directory).replace('"', '""')
    return ["-c", f'unix_socket_directories="{quoted}"']


MAX_BYTES = 5 * 1024 * 1024
_TAIL_BYTES = 16384
_TAIL_LINES = 12
#: While PostgreSQL starts, it logs this line for each `probe`. Messages to users omit the line.
_PROBE_LINE = "FATAL:  the database system is starting up"


def open_log(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def rotate(path: Path, largest: int = MAX_BYTES) -> None:
    """If a log file exceeds `largest` bytes, move its end to a second file and empty it."""
    try:
        if path.stat().st_size <= largest:
            return
    except FileNotFoundError:
        return
    older = path.with_name(f"{path.name}.1")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with path.open("rb+") as log, os.fdopen(os.open(older, flags, 0o600), "wb") as target:
        log.seek(-largest, os.SEEK_END)
        target.write(log.read(largest))
        log.truncate(0)


def tail(path: Path, start: int = 0) -> str:
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start if start <= size else 0, size - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line for line in lines if not line.endswith(_PROBE_LINE)]
    return "\n".join(telling[-_TAIL_LINES:])


if sys.platform != "win32":
    import pwd


CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    name: str
    uid: int
    gid: int
    #: True if this process runs as root, so that PostgreSQL must run as this account instead.
    is_other_user: bool


def server_account(owner: int | None = None) -> Account:
    """Return the system account for PostgreSQL.

    This is the current user or, for root, `postgres` or `nobody`. If `owner` is given, only that
    user is accepted.

    Raises:
        Misconfigured: this process runs as root, and neither account exists.
    """
    if os.geteuid() != 0:
        return Account(name="", uid=os.geteuid(), gid=os.getegid(), is_other_user=False)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0 and owner in (None, entry.pw_uid):
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, is_other_user=True)
    raise Misconfigured(
        "PostgreSQL does not run as root, and no other user can run it: the users `postgres` and "
        "`nobody` are missing, or the data directory belongs to another user; start Waybook as an "
        "ordinary user, or name a server with --database-url"
    )


def drop_privileges(account: Account) -> None:
    if not account.is_other_user:
        return
    os.setgroups([])
    os.setgid(account.gid)
    os.setuid(account.uid)


def can_run(account: Account, *command: str | Path) -> subprocess.CompletedProcess[str] | None:
    """Run a command as the system account. Return None if the account may not run it."""
    try:
        return subprocess.run(  # noqa: S603 - our own command line
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            user=account.uid if account.is_other_user else None,
            group=account.gid if account.is_other_user else None,
            extra_groups=[] if account.is_other_user else None,
        )
    except PermissionError:
        return None


def _can_access(account: Account, directory: Path) -> bool:
    done = can_run(account, "/bin/sh", "-c", 'cd "$1"', "sh", directory)
    return done is not None and done.returncode == 0


PRIVATE = 0o700
#: Mode of a directory that other users can pass through but cannot list.
_TRAVERSABLE = 0o711
_BASES = ("/var/lib", "/srv", "/opt", "/var/tmp")  # noqa: S108 - checked to be ours
_PLACES = tuple(Path(base) / "waybook" for base in _BASES)


def create_control_directory(data_dir: Path) -> ControlDirectory:
    """Create the data directory, and in it the control directory of the supervisor process.

    Raises:
        Misconfigured: a directory cannot be created, or belongs to another user.
    """
    control_dir = ControlDirectory(data_dir)
    try:
        if not control_dir.directory.exists():
            data_dir.parent.mkdir(parents=True, exist_ok=True)
            _make(data_dir, _TRAVERSABLE if os.geteuid() == 0 else PRIVATE)
            _make(control_dir.directory, PRIVATE)
    except OSError as error:
        raise Misconfigured(
            f"cannot make the data directory {data_dir}: {error.strerror}; "
            "choose another with --data-dir, or name a server with --database-url"
        ) from error
    _check_private(control_dir.directory, os.geteuid())
    return control_dir


def require_space(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise DiskFull(
            f"the disk is too full for PostgreSQL: {free:,} bytes are free at {directory}, and "
            f"{needed:,} are needed; free space there, or choose another directory with --data-dir"
        )


def create_server_directory(control_dir: ControlDirectory) -> tuple[ServerDirectory, Account]:
    """Create PostgreSQL's directory, and return it with the system account that owns it.

    Raises:
        Misconfigured: no directory can be used without changing permissions of other directories.
    """
    account = server_account()
    inside = control_dir.data_dir / "server"
    if control_dir.home.exists():
        home = ServerDirectory(Path(os.fsdecode(control_dir.home.read_bytes())))
        if not home.directory.is_dir():
            raise Misconfigured(
                f"{control_dir.home} says that the database of {control_dir.data_dir} is in "
                f"{home.directory}, which does not exist; restore it, or remove that file to start "
                "with an empty database"
            )
    elif not account.is_other_user or inside.exists() or _can_access(account, control_dir.data_dir):
        home = ServerDirectory(inside)
    else:
        home = ServerDirectory(shared_base(account) / fingerprint(control_dir.data_dir))
    _make(home.directory, PRIVATE)
    owner = home.directory.lstat().st_uid
    if account.is_other_user and owner == os.geteuid():
        # The directory is new, or an earlier process was killed before it changed the owner.
        _check_private(home.directory, owner)
        os.chown(home.directory, account.uid, account.gid, follow_symlinks=False)
    elif account.is_other_user:
        account = server_account(owner)
    _check_private(home.directory, account.uid)
    if home.directory.parent != control_dir.data_dir:
        write_private(control_dir.home, os.fsencode(home.directory))
    return home, account


def clean_places() -> None:
    remove_orphans(place for place in _PLACES if place.exists() and _is_ours(place))


def create_socket_directory(directory: Path) -> None:
    _make(directory, PRIVATE)
    _check_private(directory, os.geteuid())


def shared_base(account: Account) -> Path:
    """Return the root-owned directory for PostgreSQL files outside the data directory.

    Raises:
        Misconfigured: no such directory exists or can be created.
    """
    for place in _PLACES:
        try:
            _make(place, _TRAVERSABLE)
        except OSError:
            continue
        if _is_ours(place) and _can_access(account, place):
            return place
    raise Misconfigured(
        f"PostgreSQL would run as `{account.name}`, who reaches neither the data directory nor "
        f"any of {', '.join(map(str, _PLACES))}; choose a data directory "
        f"that `{account.name}` can reach with --data-dir, or name a server with --database-url"
    )


def _check_private(directory: Path, uid: int) -> None:
    """Check that a directory belongs to this system user and no other user can access it."""
    file_stat = directory.lstat()
    mode = stat.S_IMODE(file_stat.st_mode)
    if stat.S_ISDIR(file_stat.st_mode) and file_stat.st_uid == uid and not mode & 0o077:
        return
    raise Misconfigured(
        f"{directory} must be a directory that only user {uid} can enter, but it belongs to user "
        f"{file_stat.st_uid} with mode {mode:04o}; Waybook changes no permissions of others: "
        "run as its owner, remove it, or choose another data directory with --data-dir"
    )


def _make(directory: Path, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode)
        directory.chmod(mode)  # The umask may have removed permissions.


def _is_ours(directory: Path) -> bool:
    file_stat = directory.lstat()
    return (
        stat.S_ISDIR(file_stat.st_mode)
        and file_stat.st_uid == os.geteuid()
        and not stat.S_IMODE(file_stat.st_mode) & 0o022
    )


_CLAIM_SECONDS = 30.0
ORPHAN_SECONDS = 30 * 86_400.0
_MAX_RECORD_BYTES = 65_536
PROC = Path("/proc")
SUFFIX = ".origin"


def claim(home: ServerDirectory, control_dir: ControlDirectory) -> int:
    """Write and lock the file that records which data directory a cluster belongs to.

    Raises:
        Unavailable: another supervisor process did not release the lock in time.
    """
    path = home.directory.with_name(home.directory.name + SUFFIX)
    deadline = time.monotonic() + _CLAIM_SECONDS
    while True:
        record = locks.open_lock(path)
        locks.wait_exclusive(record, deadline, "waited to use the cluster")
        if os.fstat(record).st_nlink and os.path.samestat(os.fstat(record), path.lstat()):
            break
        os.close(record)
    is_linked, origin = True, control_dir.origin
    try:
        if not origin.exists() or not origin.samefile(path):
            origin.unlink(missing_ok=True)
            origin.hardlink_to(path)
    except OSError:
        is_linked = False
    _write(record, {"data_dir": os.fsdecode(control_dir.data_dir), "linked": is_linked})
    return record


def is_deleted(descriptor: int) -> bool:
    """Return whether an open directory was deleted. If it was only moved, return False."""
    return os.fstat(descriptor).st_nlink == 0


def remove_orphans(bases: Iterable[Path], now: float | None = None) -> list[Path]:
    """Mark clusters whose data directory was deleted, and remove those marked a month ago."""
    at = time.time() if now is None else now
    removed = []
    for record in [record for base in bases for record in sorted(base.glob(f"*{SUFFIX}"))]:
        with contextlib.suppress(OSError):
            if _remove_orphan(record, at):
                removed.append(record.with_suffix(""))
    return removed


def _remove_orphan(path: Path, now: float) -> bool:
    home = path.with_suffix("")
    if not PROC.is_dir() or not stat.S_ISREG(path.lstat().st_mode):
        return False
    record = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not locks.try_exclusive(record) or not _is_orphan(record) or _is_used(home):
            return False
        origin = _read(record)
        marked = origin.get("orphaned_at")
        if not isinstance(marked, int | float):
            _write(record, {**origin, "orphaned_at": now})
            return False
        if now - marked <= ORPHAN_SECONDS:
            return False
        if home.is_dir() and not home.is_symlink():
            shutil.rmtree(home)
        path.unlink(missing_ok=True)
        return True
    finally:
        os.close(record)


def _is_orphan(record: int) -> bool:
    file_stat = os.fstat(record)
    if file_stat.st_uid != os.geteuid() or file_stat.st_nlink != 1:
        return False
    origin = _read(record)
    data_dir = origin.get("data_dir")
    return origin.get("linked") is True and bool(data_dir) and not os.path.lexists(str(data_dir))


def _read(record: int) -> dict[str, object]:
    try:
        value = json.loads(os.pread(record, _MAX_RECORD_BYTES, 0))
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
            if process.lstat().st_uid != user:
                continue
            if (process / "cwd").readlink().is_relative_to(real):
                return True
        except PermissionError:
            return True
        except OSError:
            continue
    return False
