"""Processes of the fault test: PostgreSQL, pgbouncer, two servers, and a proxy for faults."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg

from faults.disk import initialize, make_disk, remove_disk, unprivileged_user
from faults.processes import Command, Supervised
from faults.wire import Address
from waybook.embedded_postgres.cluster import find_binaries
from waybook.embedded_postgres.data_directory import server_account

HOST: Final = "127.0.0.1"
DIRECT, POOLED = "direct", "pooled"
SERVERS: Final = (DIRECT, POOLED)
#: Kinds of connections on which the proxy causes faults: those from agents to a server, and those
#: from a server or pgbouncer to PostgreSQL.
HTTP, DATABASE = "http", "database"
OWNER: Final = "builder"
DBNAME: Final = "waybook"
POOL_SIZE: Final = 8
LEASE_SECONDS: Final = 6
START_SECONDS: Final = 60.0
DISK_MEGABYTES: Final = 768
ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
DEBIAN_BINARIES: Final = Path("/usr/lib/postgresql/15/bin")
PGBOUNCER: Final = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
FAKETIME: Final = tuple(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    #: Folder of Waybook's source, which the servers run.
    source: Path = SOURCE
    lease_seconds: int = LEASE_SECONDS
    #: Size of a separate file system for the data, so that a fault can fill it; None to use the
    #: directory for temporary files.
    disk_megabytes: int | None = DISK_MEGABYTES


@dataclass(slots=True)
class Cluster:
    """Processes of the fault test, with methods that cause faults."""

    home: Path
    options: Options
    ports: dict[str, int]
    postgres: Supervised = field(init=False)
    pooler: Supervised = field(init=False)
    servers: dict[str, Supervised] = field(init=False)
    #: For each server, by how many hours its clock is wrong.
    clock_hours: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SERVERS, 0))
    proxy: asyncio.subprocess.Process | None = None
    binaries: Path = DEBIAN_BINARIES
    _proxy_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        if not DEBIAN_BINARIES.exists():
            self.binaries = find_binaries(server_account())[0]
        self.postgres = Supervised("postgres", self._postgres_command)
        self.pooler = Supervised("pgbouncer", self._pooler_command)
        self.servers = {
            name: Supervised(name, partial(self._server_command, name)) for name in SERVERS
        }

    @property
    def disk(self) -> Path:
        """Return the directory on which the file system for PostgreSQL's data is mounted."""
        return self.home / "disk"

    @property
    def user(self) -> str | None:
        """Return the system account for PostgreSQL and pgbouncer, which refuse to run as root."""
        return unprivileged_user()

    @property
    def admin_dsn(self) -> str:
        """Return the DSN of the superuser, without a proxy."""
        return f"host={HOST} port={self.ports['postgres']} user=postgres dbname={DBNAME}"

    @property
    def owner_url(self) -> str:
        """Return the URL of the database owner, without a proxy."""
        return f"postgresql://{OWNER}@{HOST}:{self.ports['postgres']}/{DBNAME}"

    @property
    def pooled_dsn(self) -> str:
        """Return the DSN with which the server behind pgbouncer connects to the database."""
        return f"host={HOST} port={self.ports['pgbouncer']} user={OWNER} dbname={DBNAME}"

    def addresses(self) -> dict[str, Address]:
        """Return the addresses of the servers as agents use them, through the proxy."""
        return {
            name: Address(self.ports[f"http-{name}"], f"{HOST}:{self.ports[name]}")
            for name in SERVERS
        }

    @property
    def can_shift_clocks(self) -> bool:
        return bool(FAKETIME)

    def _postgres_command(self) -> Command:
        words = [str(self.binaries / "postgres"), "-D", str(self.disk / "cluster")]
        return Command(words=words, log=self.home / "postgres.log", user=self.user)

    def _pooler_command(self) -> Command:
        assert PGBOUNCER is not None
        words = [PGBOUNCER, str(self.home / "pgbouncer.ini")]
        return Command(words=words, log=self.home / "pgbouncer.log", user=self.user)

    def _server_command(self, name: str) -> Command:
        words = [sys.executable, "-m", "waybook", "serve", "--auth", "required", "--tools", "all"]
        words += ["--port", str(self.ports[name])]
        through = "pgbouncer" if name == POOLED else f"database-{DIRECT}"
        url = f"postgresql://{OWNER}@{HOST}:{self.ports[through]}/{DBNAME}"
        owner = f"postgresql://{OWNER}@{HOST}:{self.ports[f'database-{name}']}/{DBNAME}"
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "PYTHONPATH": str(self.options.source),
            "WAYBOOK_DATABASE_URL": url,
            "WAYBOOK_OWNER_URL": owner,
            "WAYBOOK_LEASE_SECONDS": str(self.options.lease_seconds),
            "WAYBOOK_CALLS_PER_SECOND": "0",
            **self._clock(name),
        }
        log = self.home / f"{name}.log"
        return Command(words=words, log=log, environment=environment)

    def _clock(self, name: str) -> dict[str, str]:
        hours = self.clock_hours[name]
        if not hours or not FAKETIME:
            return {}
        shifted = {"FAKETIME": f"{hours:+d}h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        return {"LD_PRELOAD": str(FAKETIME[0]), **shifted}

    async def network(self, hop: str, server: str, do: str, **more: object) -> None:
        """Send the proxy a command for the connections of a server; wait until it is executed."""
        assert self.proxy is not None
        assert self.proxy.stdin is not None
        assert self.proxy.stdout is not None
        command = {"link": f"{hop}-{server}", "do": do, **more}
        async with self._proxy_turn:
            self.proxy.stdin.write(json.dumps(command).encode() + b"\n")
            await self.proxy.stdin.drain()
            await self.proxy.stdout.readline()

    async def sql(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Run an SQL statement as the superuser, without a proxy."""
        return await asyncio.to_thread(query, self.admin_dsn, text, values)

    async def postgres_is_ready(self) -> bool:
        with suppress(psycopg.Error):
            await self.sql("select 1")
            return True
        return False

    async def await_postgres(self) -> float:
        """Wait until PostgreSQL accepts connections; return the time at which it does."""
        await until(self.postgres_is_ready, "PostgreSQL accepts connections")
        return time.monotonic()

    async def await_listening(self, name: str) -> float:
        """Wait until a process listens on its port; return the time at which it does."""
        await until(lambda: _listens(self.ports[name]), f"{name} listens")
        return time.monotonic()


def query(dsn: str, text: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """Run one SQL statement on a separate connection."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(text.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


async def until(condition: Callable[[], Any], what: str, seconds: float = START_SECONDS) -> None:
    """Wait until a condition is true.

    Raises:
        TimeoutError: the condition was still false after the timeout.
    """
    end = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s in vain for this: {what}")
        await asyncio.sleep(0.02)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


def free_ports(names: list[str]) -> dict[str, int]:
    sockets = []
    for _ in names:
        sock = socket.socket()
        sock.bind((HOST, 0))
        sockets.append(sock)
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return dict(zip(names, ports, strict=True))


def _new_home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="waybook-faults-"))
    home.chmod(0o755)
    return home


@asynccontextmanager
async def running_cluster(options: Options) -> AsyncIterator[Cluster]:
    """Start all processes except the servers; stop all at the end, without deleting their files."""
    home = _new_home()
    hops = [f"{hop}-{name}" for hop in (HTTP, DATABASE) for name in SERVERS]
    cluster = Cluster(home, options, free_ports(["postgres", "pgbouncer", *SERVERS, *hops]))
    try:
        make_disk(cluster.disk, options.disk_megabytes)
        ports = cluster.ports
        initialize(cluster.disk, cluster.binaries, ports["postgres"])
        _configure_pooler(cluster)
        await _start(cluster)
        yield cluster
    finally:
        await _stop(cluster)


async def _start(cluster: Cluster) -> None:
    ports = cluster.ports
    links = [[f"{HTTP}-{name}", ports[f"{HTTP}-{name}"], ports[name]] for name in SERVERS]
    links += [
        [f"{DATABASE}-{name}", ports[f"{DATABASE}-{name}"], ports["postgres"]] for name in SERVERS
    ]
    cluster.proxy = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("proxy.py")),
        json.dumps(links),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert cluster.proxy.stdout is not None
    await cluster.proxy.stdout.readline()
    cluster.postgres.start()
    await until(lambda: _answers(cluster, "postgres"), "PostgreSQL accepts connections")
    maintenance = cluster.admin_dsn.replace(f"dbname={DBNAME}", "dbname=postgres")
    await asyncio.to_thread(query, maintenance, f"create role {OWNER} login createrole")
    await asyncio.to_thread(query, maintenance, f"create database {DBNAME} owner {OWNER}")
    cluster.pooler.start()
    await cluster.await_listening("pgbouncer")


def _configure_pooler(cluster: Cluster) -> None:
    """Write the settings of pgbouncer, which retries a failed connection every second."""
    ports = cluster.ports
    target = f"host={HOST} port={ports[f'{DATABASE}-{POOLED}']} user={OWNER} dbname={DBNAME}"
    settings = {
        "listen_addr": HOST,
        "listen_port": ports["pgbouncer"],
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": POOL_SIZE,
        "max_client_conn": 200,
        "server_login_retry": 1,
        "server_connect_timeout": 5,
        "query_wait_timeout": 8,
    }
    lines = [f"[databases]\n{DBNAME} = {target}\n[pgbouncer]"]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    (cluster.home / "pgbouncer.ini").write_text("\n".join(lines) + "\n")


async def start_servers(cluster: Cluster) -> None:
    for server in cluster.servers.values():
        server.start()
    for name in SERVERS:
        await cluster.await_listening(name)


async def _answers(cluster: Cluster, dbname: str) -> bool:
    dsn = cluster.admin_dsn.replace(f"dbname={DBNAME}", f"dbname={dbname}")
    with suppress(psycopg.Error):
        await asyncio.to_thread(query, dsn, "select 1")
        return True
    return False


async def _stop(cluster: Cluster) -> None:
    for server in cluster.servers.values():
        await server.stop(signal.SIGKILL)
    await cluster.pooler.stop(signal.SIGKILL)
    await cluster.postgres.stop(signal.SIGQUIT)
    if cluster.proxy is not None and cluster.proxy.stdin is not None:
        cluster.proxy.stdin.close()
        await cluster.proxy.wait()
    remove_disk(cluster.disk)
