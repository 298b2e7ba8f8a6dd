"""Citus cluster on loopback: a coordinator and two worker nodes in a temporary folder."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from embedded_postgres.processes import eventually
from faults.cluster import HOST, free_ports
from faults.disk import unprivileged_user
from run_place import find_memory

COORDINATOR: Final = "coordinator"
WORKERS: Final = ("worker-1", "worker-2")
#: Number of shards of each table. PostgreSQL stores each shard as a table, and 40 tables have
#: shards, so the number is small.
SHARD_COUNT: Final = 4
SETTINGS: Final = {
    "listen_addresses": f"'{HOST}'",
    "unix_socket_directories": "''",
    "shared_preload_libraries": "'citus'",
    "citus.node_conninfo": "'sslmode=disable'",
    "citus.shard_count": str(SHARD_COUNT),
    "max_connections": "400",
    "max_prepared_transactions": "200",
    # Citus needs a background process for each database.
    "max_worker_processes": "64",
    "max_locks_per_transaction": "512",
    "timezone": "'Asia/Kolkata'",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


@contextmanager
def running(programs: Path) -> Iterator[str]:
    """Start a cluster; yield the superuser's DSN for the coordinator.

    The servers stop when this process ends, even if it is killed.
    """
    home = Path(tempfile.mkdtemp(prefix="waybook-citus-", dir=find_memory()))
    user = unprivileged_user()
    if user is not None:
        shutil.chown(home, user)
    ports = free_ports([COORDINATOR, *WORKERS])
    with ExitStack() as servers:
        servers.callback(shutil.rmtree, home, ignore_errors=True)
        for name, port in ports.items():
            servers.enter_context(_server(programs, home / name, port))
        dsn = f"host={HOST} port={ports[COORDINATOR]} user=postgres dbname=postgres"
        for name, port in ports.items():
            eventually(partial(_answers, port), f"{name} answers")
            _execute(port, "create extension citus")
        _execute(
            ports[COORDINATOR], f"select citus_set_coordinator_host('{HOST}', {ports[COORDINATOR]})"
        )
        for name in WORKERS:
            _execute(ports[COORDINATOR], f"select citus_add_node('{HOST}', {ports[name]})")
        yield dsn


@contextmanager
def _server(programs: Path, data: Path, port: int) -> Iterator[None]:
    """Run a PostgreSQL server until the block ends, or until this process ends."""
    user = unprivileged_user()
    made = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
    initdb: list[str | Path] = [programs / "initdb", "-D", data, *made]
    subprocess.run(initdb, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in {**SETTINGS, "port": port}.items())
    # At the end of this process, the standard input of the shell closes, and the shell stops the
    # server.
    script = f"'{programs}/postgres' -D '{data}' & read _; kill -QUIT $!; wait"
    with (data / "server.log").open("wb") as log:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            user=user,
            cwd="/",
        )
    try:
        yield
    finally:
        shell.communicate()


def _execute(port: int, text: str) -> None:
    with psycopg.connect(
        f"host={HOST} port={port} user=postgres dbname=postgres", autocommit=True
    ) as admin:
        admin.execute(text.encode())


def _answers(port: int) -> bool:
    try:
        _execute(port, "select 1")
    except psycopg.OperationalError:
        return False
    return True
