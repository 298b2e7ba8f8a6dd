"""Who PostgreSQL runs as: never root, and never somebody we had to create."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from waybook.errors import Misconfigured

if sys.platform != "win32":
    import pwd

CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user of the operating system that owns the cluster and runs the server."""

    name: str
    uid: int
    gid: int
    is_other_user: bool
    """Whether we are root and step down to this account."""


def server_account(owner: int | None = None) -> Account:
    """Ourselves; as root `postgres` where it exists, else `nobody`.

    With `owner`, only that one of the two will do: a cluster stays with the user who made it.

    Raises:
        Misconfigured: we are root and there is neither.
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
        "PostgreSQL does not run as root, and this system has neither a user `postgres` nor "
        "`nobody` to run it as (or the cluster belongs to somebody else); start Waybook as an "
        "ordinary user, or name a server with --database-url"
    )


def drop_privileges(account: Account) -> None:
    """Become the account, for good."""
    if not account.is_other_user:
        return
    os.setgroups([])
    os.setgid(account.gid)
    os.setuid(account.uid)


def can_run(account: Account, *command: str | Path) -> subprocess.CompletedProcess[str] | None:
    """What the command says when the account runs it, or nothing if it may not."""
    try:
        if account.is_other_user:
            return subprocess.run(  # noqa: S603 - our own command line
                command,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                user=account.uid,
                group=account.gid,
                extra_groups=[],
            )
        return subprocess.run(  # noqa: S603 - our own command line
            command, capture_output=True, text=True, check=False, cwd="/"
        )
    except PermissionError:
        return None


def can_access(account: Account, directory: Path) -> bool:
    """Whether the account gets into the directory as the permissions are."""
    done = can_run(account, "/bin/sh", "-c", 'cd "$1"', "sh", directory)
    return done is not None and done.returncode == 0
