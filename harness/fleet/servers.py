"""Fleet under test: PostgreSQL, pgbouncer, several servers, and HAProxy as load balancer."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from faults.cluster import DEBIAN_BINARIES, PGBOUNCER, SOURCE, free_ports, query, until
from faults.disk import initialize, unprivileged_user
from faults.processes import Command, Supervised
from waybook.embedded_postgres.cluster import find_binaries
from waybook.embedded_postgres.data_directory import server_account

HOST: Final = "127.0.0.1"
OWNER, SERVING, DBNAME = "builder", "server", "waybook"
HAPROXY: Final = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
#: Seconds for which a server still answers calls after it was asked to stop. HAProxy, which checks
#: the servers twice a second, notices the stop in this time.
DRAIN_SECONDS: Final = 2
#: Timeout for the start of a server, long enough for a busy machine.
START_SECONDS: Final = 120.0
STALL_SECONDS: Final = 3

BALANCER: Final = """
global
  maxconn {connections}
defaults
  mode http
  timeout connect 2s
  timeout client 90s
  timeout server 90s
  timeout http-keep-alive 60s
  timeout check 5s
  retries 3
  option redispatch
frontend agents
  bind {host}:{port}
  default_backend servers
backend servers
  balance roundrobin
{options}  option httpchk GET /readyz
  default-server check inter 500ms fall 1 rise 1
{servers}
"""
POOLER: Final = """
[databases]
{dbname} = host={host} port={postgres} user={user} dbname={dbname}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 12
max_client_conn = 200
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Options for a fleet that differs from that of `make harness NAME=fleet`."""

    #: Additional environment variables of the servers.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Maximum number of connections to HAProxy, and further options of HAProxy.
    balancer_connections: int = 2_000
    backend_options: Sequence[str] = ()
    #: True if every second server connects through pgbouncer.
    is_pooled: bool = True
    #: Folder of the version of Waybook that creates the database.
    first_source: Path = SOURCE


@dataclass(slots=True)
class Fleet:
    """Processes of a fleet, in which every second server connects through pgbouncer."""

    home: Path
    ports: dict[str, int]
    names: list[str]
    workers: int = 1
    variant: Variant = field(default_factory=Variant)
    #: For each server, the folder of the version of Waybook that it runs.
    sources: dict[str, Path] = field(default_factory=dict)
    binaries: Path = DEBIAN_BINARIES
    postgres: Supervised = field(init=False)
    pooler: Supervised = field(init=False)
    balancer: Supervised = field(init=False)
    servers: dict[str, Supervised] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not DEBIAN_BINARIES.exists():
            self.binaries = find_binaries(server_account())[0]
        self.postgres = Supervised("postgres", self._postgres_command)
        self.pooler = Supervised("pgbouncer", self._pooler_command)
        self.balancer = Supervised("haproxy", self._balancer_command)

    def dsn(self, user: str, through: str = "postgres") -> str:
        """Return the DSN of a database role, with or without pgbouncer."""
        return f"postgresql://{user}@{HOST}:{self.ports[through]}/{DBNAME}"

    async def sql(self, text: str) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(query, self.dsn("postgres"), text)

    def start_server(self, name: str, source: Path) -> None:
        self.sources[name] = source
        self.servers[name] = Supervised(name, partial(self._server_command, name))
        self.servers[name].start()

    async def await_ready(self, name: str) -> None:
        try:
            ready = partial(is_ready, self.ports[name])
            await until(ready, f"{name} is ready", START_SECONDS)
        except TimeoutError as error:
            log = await asyncio.to_thread((self.home / f"{name}.log").read_text)
            raise TimeoutError(f"{error}\n{log[-2000:]}") from None

    async def replace_server(self, name: str, source: Path) -> float:
        """Replace a server by one of this version; return the seconds until the old one stopped."""
        seconds = await self.servers[name].stop(signal.SIGTERM)
        self.start_server(name, source)
        await self.await_ready(name)
        return seconds

    async def migrate(self, source: Path) -> str:
        """Run this version's `waybook migrate` as the database owner."""
        return await self.command(source, "migrate")

    async def command(self, source: Path, *words: str, may_fail: bool = False) -> str:
        """Run a Waybook command of this version as the database owner; return its output."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "waybook", *words),
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(self.home),
                "PYTHONPATH": str(source),
                "WAYBOOK_DATABASE_URL": self.dsn(OWNER),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
        assert may_fail or process.returncode == 0, output
        return output

    def logged_errors(self) -> list[str]:
        """Return the lines in the logs of the servers that report an unexpected error."""
        return [
            f"{name}: {line[:2_000]}"
            for name in self.names
            for line in (self.home / f"{name}.log").read_text().splitlines()
            if '"level": "ERROR"' in line or '"trace": ' in line or line.startswith("Traceback")
        ]

    def _postgres_command(self) -> Command:
        words = [str(self.binaries / "postgres"), "-D", str(self.home / "disk" / "cluster")]
        return Command(words=words, log=self.home / "postgres.log", user=unprivileged_user())

    def _pooler_command(self) -> Command:
        assert PGBOUNCER is not None, "pgbouncer is not installed"
        words = [PGBOUNCER, str(self.home / "pgbouncer.ini")]
        return Command(words=words, log=self.home / "pgbouncer.log", user=unprivileged_user())

    def _balancer_command(self) -> Command:
        assert HAPROXY is not None, "haproxy is not installed"
        words = [HAPROXY, "-db", "-f", str(self.home / "haproxy.cfg")]
        return Command(words=words, log=self.home / "haproxy.log")

    def _server_command(self, name: str) -> Command:
        words = [sys.executable, "-m", "waybook", "serve", "--auth", "required"]
        words += ["--port", str(self.ports[name]), "--workers", str(self.workers)]
        is_pooled = self.variant.is_pooled and self.names.index(name) % 2
        through = "pgbouncer" if is_pooled else "postgres"
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.home),
            "PYTHONPATH": str(self.sources[name]),
            "WAYBOOK_DATABASE_URL": self.dsn(SERVING, through),
            "WAYBOOK_CALLS_PER_SECOND": "0",
            "WAYBOOK_DRAIN_SECONDS": str(DRAIN_SECONDS),
            "WAYBOOK_STALL_SECONDS": str(STALL_SECONDS),
            "WAYBOOK_ALLOWED_HOSTS": f"{HOST}:{self.ports['balancer']}",
            **self.variant.environment,
        }
        return Command(words=words, log=self.home / f"{name}.log", environment=environment)


async def is_ready(port: int) -> bool:
    """Return whether the server answers `GET /readyz`, which HAProxy also sends, with 200."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
        status = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
    except (OSError, TimeoutError):
        return False
    return b" 200 " in status


@asynccontextmanager
async def running_fleet(
    count: int, workers: int, variant: Variant | None = None
) -> AsyncIterator[Fleet]:
    """Start all processes except the servers; at the end, stop all and delete their files."""
    home = new_home("fleet")
    names = [f"server-{number}" for number in range(count)]
    ports = free_ports(["postgres", "pgbouncer", "balancer", *names])
    fleet = Fleet(home, ports, names, workers, variant or Variant())
    try:
        disk = home / "disk"
        disk.mkdir()
        if (user := unprivileged_user()) is not None:
            shutil.chown(disk, user)
        initialize(disk, fleet.binaries, ports["postgres"])
        configure_balancer(fleet)
        _configure_pooler(fleet)
        await _start_database(fleet)
        fleet.pooler.start()
        fleet.balancer.start()
        yield fleet
    finally:
        for server in fleet.servers.values():
            await server.stop(signal.SIGKILL)
        await fleet.balancer.stop(signal.SIGKILL)
        await fleet.pooler.stop(signal.SIGKILL)
        await fleet.postgres.stop(signal.SIGQUIT)
        shutil.rmtree(home, ignore_errors=True)


def new_home(purpose: str) -> Path:
    """Create a folder for the files of all processes, which every system account can read."""
    home = Path(tempfile.mkdtemp(prefix=f"waybook-{purpose}-"))
    home.chmod(0o755)
    return home


def configure_balancer(fleet: Fleet) -> None:
    """Write the configuration of HAProxy."""
    ports = fleet.ports
    lines = [f"  server {name} {HOST}:{ports[name]}" for name in fleet.names]
    text = BALANCER.format(
        host=HOST,
        port=ports["balancer"],
        connections=fleet.variant.balancer_connections,
        options="".join(f"  {option}\n" for option in fleet.variant.backend_options),
        servers="\n".join(lines),
    )
    (fleet.home / "haproxy.cfg").write_text(text)


def _configure_pooler(fleet: Fleet) -> None:
    ports = fleet.ports
    named = {"host": HOST, "port": ports["pgbouncer"], "postgres": ports["postgres"]}
    (fleet.home / "pgbouncer.ini").write_text(POOLER.format(dbname=DBNAME, user=SERVING, **named))


async def _start_database(fleet: Fleet) -> None:
    fleet.postgres.start()
    maintenance = fleet.dsn("postgres").replace(f"/{DBNAME}", "/postgres")

    async def answers() -> bool:
        try:
            await asyncio.to_thread(query, maintenance, "select 1")
        except Exception:  # noqa: BLE001 - any failure means that it does not answer yet
            return False
        return True

    await until(answers, "PostgreSQL accepts connections")
    await create_database(fleet, maintenance)


async def create_database(fleet: Fleet, maintenance: str) -> None:
    """Create the roles and a migrated database; `maintenance` is the DSN of a superuser."""
    for statement in (
        f"create role {OWNER} login createrole",
        f"create database {DBNAME} owner {OWNER}",
        f"create role {SERVING} login",
    ):
        await asyncio.to_thread(query, maintenance, statement)
    await fleet.migrate(fleet.variant.first_source)
    await asyncio.to_thread(query, maintenance, f"grant waybook_app to {SERVING}")
