"""Where everything lies.

::

    DATA_DIR/
    ├── keeper/            ours, 0700
    │   ├── clients.lock   held together by every client, for as long as it lives
    │   ├── start.lock     held alone while somebody starts the server
    │   ├── keeper.lock    held alone by the keeper, for as long as it lives
    │   ├── keeper.log     what the keeper has to say
    │   ├── home           where the server's directory is, if it is not here
    │   ├── origin         a link to the record beside that directory, see `leftovers`
    │   └── connection.json   passwords and socket, 0600
    └── server/            the server's, 0700
        ├── cluster/       PostgreSQL's data directory
        ├── bootstrapped   which bootstrap the cluster has seen
        ├── server.log     at most two files of bounded size
        └── socket/

As root the server runs as another user, who must reach `server/` without any directory being
opened for it. Where it cannot (a data directory below /root, say), `server/` lies in
/var/lib/waybook/<hash of the data directory> instead, and `keeper/home` says so; see `leftovers`
for what becomes of it when the data directory is deleted.
A socket's path is limited to 107 bytes, and drivers split it at commas; where it would be longer
or hold one, the socket lies in /tmp/waybook-<uid>-<hash>, private like the rest.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_PATH_LENGTH = 106
SHORT_SOCKET_BASE = Path("/tmp")  # noqa: S108 - the directory below it is checked to be ours and private


@dataclass(frozen=True, slots=True)
class ControlDirectory:
    """The keeper's side of a data directory: what clients and keeper share."""

    data_dir: Path

    @property
    def directory(self) -> Path:
        return self.data_dir / "keeper"

    @property
    def clients_lock(self) -> Path:
        return self.directory / "clients.lock"

    @property
    def start_lock(self) -> Path:
        return self.directory / "start.lock"

    @property
    def supervisor_lock(self) -> Path:
        return self.directory / "keeper.lock"

    @property
    def log(self) -> Path:
        return self.directory / "keeper.log"

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def origin(self) -> Path:
        return self.directory / "origin"

    @property
    def connection(self) -> Path:
        return self.directory / "connection.json"


@dataclass(frozen=True, slots=True)
class ServerDirectory:
    """The server's side: everything PostgreSQL itself reads and writes."""

    directory: Path

    @property
    def cluster(self) -> Path:
        return self.directory / "cluster"

    @property
    def bootstrapped(self) -> Path:
        return self.directory / "bootstrapped"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"


def fingerprint(path: Path) -> str:
    """A short name for a long path, the same every time."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def socket_directory(home: ServerDirectory) -> Path:
    """Where the socket lies: beside the cluster, or where its path is short and plain."""
    beside = home.directory / "socket"
    path = os.fsencode(beside / SOCKET_NAME)
    if len(path) <= MAX_SOCKET_PATH_LENGTH and b"," not in path:
        return beside
    return SHORT_SOCKET_BASE / f"waybook-{os.geteuid()}-{fingerprint(home.directory)}"
