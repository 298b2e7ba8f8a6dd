"""PostgreSQL 15 clusters for one test: WAL archive, copies, recovery, standby and crash.

A cluster ends when the test process closes a pipe, or when this process itself ends.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from embedded_postgres.processes import eventually
from embedded_postgres.processes import kill as kill_processes
from missing_programs import FIFTEEN, POSTGRES_15
from postgres_servers import Server, ServerDatabase, _answers, _has_user
from run_place import PLACE
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import APP_ROLE, migrate

DBNAME = "waybook"
BUILDER = "builder"


def _user() -> str | None:
    if os.getuid():
        return None
    return "postgres" if _has_user("postgres") else "nobody"


def run(program: str, *words: str | Path) -> None:
    """Run a PostgreSQL program as the operating-system user that owns the cluster files."""
    command: list[str | Path] = [FIFTEEN / program, *words]
    done = subprocess.run(
        command, check=False, user=_user(), capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, slots=True)
class Cluster:
    """PostgreSQL cluster in a directory with its files and its socket."""

    home: Path

    @property
    def data(self) -> Path:
        return self.home / "cluster"

    @property
    def admin_dsn(self) -> str:
        return f"host={self.home} user=postgres dbname=postgres"

    @property
    def place(self) -> ServerDatabase:
        url = f"host={self.home} user={BUILDER} dbname=postgres"
        server = Server(
            name="15", admin_dsn=self.admin_dsn, owner_dsn=url, app_dsn=url, role=APP_ROLE
        )
        return ServerDatabase(server=server, dbname=DBNAME)

    def configure(self, **settings: str) -> None:
        """Write these settings for the next start or reload; `{home}` is the cluster's folder."""
        settings = {"unix_socket_directories": "{home}", "listen_addresses": "", **settings}
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.writelines(
                f"{name} = '{value.format(home=self.home)}'\n" for name, value in settings.items()
            )

    def recover(self, **settings: str) -> None:
        """Start this copy, replay the archived WAL up to the configured target, and promote it."""
        self.configure(archive_mode="off", recovery_target_action="promote", **settings)
        signal = self.data / "recovery.signal"
        signal.touch()
        if (user := _user()) is not None:
            shutil.chown(signal, user)
        self.start()
        eventually(lambda: not self.ask("select pg_is_in_recovery()"), "recovery has ended")

    def start(self) -> None:
        alive, log = Path(os.environ[PLACE]) / "alive", self.home / "log"
        serve = f"'{FIFTEEN}/postgres' -D '{self.data}' & read _ <'{alive}'; kill -QUIT $!; wait"
        command = ["/bin/sh", "-c", f"({serve}) </dev/null >>'{log}' 2>&1 &"]
        subprocess.run(command, check=True, user=_user(), start_new_session=True, cwd="/")
        eventually(lambda: _answers(self.admin_dsn), "PostgreSQL answers")

    @property
    def postmaster(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """Kill the server suddenly, as a power cut would; wait until it does not answer."""
        kill_processes(self.postmaster)
        eventually(lambda: not _answers(self.admin_dsn), "the server is gone")
        # Another process may get the process id in the PID file, so remove the file.
        (self.data / "postmaster.pid").unlink()

    def ask(self, question: str, *values: object) -> object:
        with psycopg.connect(self.admin_dsn, autocommit=True) as admin:
            row = admin.execute(question.encode(), values).fetchone()
        assert row is not None
        return row[0]

    def base_backup(self, *options: str) -> "Cluster":
        """Make a physical copy of the running cluster, configured to run in its own directory."""
        copy = Cluster(_new_home())
        source = ("-h", self.home, "-U", "postgres", "-D", copy.data)
        run("pg_basebackup", *source, "--checkpoint=fast", "--no-sync", *options)
        copy.configure()
        return copy


def _new_home() -> Path:
    home = Path(os.environ[PLACE]) / f"own-{new_uuid()[-12:]}"
    home.mkdir(mode=0o755)
    user = _user()
    if user is not None:
        shutil.chown(home, user)
    return home


@contextmanager
def own_cluster(**settings: str) -> Iterator[Cluster]:
    """Yield a durable cluster with a migrated database; remove the cluster at the end."""
    if not FIFTEEN.exists():
        POSTGRES_15.skip(f"{FIFTEEN} does not exist")
    before = {*Path(os.environ[PLACE]).glob("own-*")}
    cluster = Cluster(_new_home())
    made = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    run("initdb", "-D", cluster.data, *made)
    cluster.configure(**settings)
    try:
        cluster.start()
        with psycopg.connect(cluster.admin_dsn, autocommit=True) as admin:
            admin.execute(f"create role {BUILDER} login createrole".encode())
            admin.execute(f"create database {DBNAME} owner {BUILDER}".encode())
        migrate(cluster.place.owner_dsn)
        yield cluster
    finally:
        for home in {*Path(os.environ[PLACE]).glob("own-*")} - before:
            _remove(Cluster(home))


def _remove(cluster: Cluster) -> None:
    if (cluster.data / "postmaster.pid").exists():
        cluster.kill()
    shutil.rmtree(cluster.home, ignore_errors=True)
