"""Two PostgreSQL servers on Unix sockets: a primary, and a standby that replicates from it."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from embedded_postgres.processes import eventually
from postgres_servers import BUILDER, Server, ServerDatabase
from run_place import run_directory
from waybook.embedded_postgres.cluster import find_binaries
from waybook.embedded_postgres.data_directory import server_account
from waybook.store.maintenance.migrate import APP_ROLE, migrate

DBNAME = "waybook"
#: Without `fsync` a commit still waits until the log is written, which the tests rely on.
SETTINGS = "listen_addresses = ''\nfsync = off\nhot_standby = on\nmax_connections = 60\n"


@dataclass(slots=True)
class Node:
    """PostgreSQL server whose sockets are in its own directory."""

    home: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        """Return the superuser's DSN."""
        return f"host={self.home} user=postgres dbname={DBNAME}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        binaries, user = programs()
        words: list[str | Path] = [binaries / "postgres", "-D", self.home / "data"]
        words += ["-k", self.home]
        log = subprocess.DEVNULL
        self.process = subprocess.Popen(words, user=user, stdout=log, stderr=log, cwd="/")
        eventually(self._answers, f"the server in {self.home} answers")

    def stop(self) -> None:
        """Stop the server at once."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def freeze(self, backends: list[int]) -> None:
        """Suspend the server and these backends, so that it answers nothing."""
        assert self.process is not None
        for pid in (self.process.pid, *backends):
            os.kill(pid, signal.SIGSTOP)

    def thaw(self, backends: list[int]) -> None:
        """Resume the server and these backends."""
        assert self.process is not None
        for pid in (self.process.pid, *backends):
            os.kill(pid, signal.SIGCONT)

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Run an SQL statement as the superuser."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        try:
            psycopg.connect(f"host={self.home} user=postgres dbname=postgres").close()
        except psycopg.OperationalError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class ReplicatedServers:
    """Primary with a migrated database, and its standby."""

    primary: Node
    standby: Node
    place: ServerDatabase

    @property
    def replica_dsn(self) -> str:
        """Return the serving user's DSN for the standby."""
        return f"host={self.standby.home} user={BUILDER} dbname={DBNAME}"

    def pause_replay(self) -> None:
        """Let the standby receive changes without applying them."""
        self.standby.sql("select pg_wal_replay_pause()")
        paused = "select pg_get_wal_replay_pause_state()"
        eventually(lambda: self.standby.sql(paused) == [("paused",)], "replay is paused")

    def resume_replay(self) -> None:
        """Let the standby apply changes again, and wait until it has caught up."""
        self.standby.sql("select pg_wal_replay_resume()")
        ((position,),) = self.primary.sql("select pg_current_wal_flush_lsn()::text")
        replayed = f"select pg_last_wal_replay_lsn() >= '{position}'"
        eventually(lambda: self.standby.sql(replayed) == [(True,)], "the standby has caught up")


def programs() -> tuple[Path, str | None]:
    """Return the directory of PostgreSQL's programs, and the OS user who runs them."""
    account = server_account()
    return find_binaries(account).directory / "bin", account.name or None


@contextmanager
def replicated_servers() -> Iterator[ReplicatedServers]:
    """Start a primary with a migrated database, and a standby that replicates from it."""
    binaries, user = programs()
    home = Path(tempfile.mkdtemp(prefix="pair-", dir=run_directory()))
    home.chmod(0o755)
    primary, standby = Node(home / "primary"), Node(home / "standby")
    for node in (primary, standby):
        node.home.mkdir()
        if user is not None:
            shutil.chown(node.home, user)
    made = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    data = primary.home / "data"
    _run([binaries / "initdb", "-D", data, *made], user)
    with (data / "postgresql.conf").open("a") as file:
        file.write(SETTINGS)
    try:
        primary.start()
        place = _migrated(primary)
        copied = ("-X", "stream", "-R", "--checkpoint=fast", "--no-sync")
        source = ("-d", f"host={primary.home} user=postgres")
        _run([binaries / "pg_basebackup", *source, "-D", standby.home / "data", *copied], user)
        standby.start()
        yield ReplicatedServers(primary, standby, place)
    finally:
        standby.stop()
        primary.stop()
        shutil.rmtree(home, ignore_errors=True)


def _migrated(primary: Node) -> ServerDatabase:
    admin = f"host={primary.home} user=postgres dbname=postgres"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"create role {BUILDER} login createrole nosuperuser".encode())
        connection.execute(f"create database {DBNAME} owner {BUILDER}".encode())
    url = f"host={primary.home} user={BUILDER}"
    server = Server(name="pair", admin_dsn=admin, owner_dsn=url, app_dsn=url, role=APP_ROLE)
    place = ServerDatabase(server=server, dbname=DBNAME)
    migrate(place.owner_dsn)
    return place


def _run(words: list[str | Path], user: str | None) -> None:
    subprocess.run(words, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
