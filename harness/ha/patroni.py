"""Database cluster under test: etcd, and two PostgreSQL servers that Patroni manages."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import psycopg

from faults.cluster import DEBIAN_BINARIES, until
from faults.disk import unprivileged_user
from faults.processes import Command, Supervised, children_of

HOST: Final = "127.0.0.1"
NODES: Final = ("node-1", "node-2")
PATRONI: Final = shutil.which("patroni")
ETCD: Final = shutil.which("etcd")
#: Settings of Patroni: seconds for which the primary may be silent, and seconds between checks.
TTL_SECONDS: Final = 20
LOOP_SECONDS: Final = 2
CLUSTER_SECONDS: Final = 90.0
#: Maximum lag of a standby that Patroni promotes. The default of 1 MB is too small, because the
#: load may write more in the second before the primary is killed.
MAX_LAG_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class Patroni:
    """Etcd, and two nodes.

    A node is a Patroni process and the PostgreSQL server that it manages.
    """

    home: Path
    ports: dict[str, int]
    etcd: Supervised = field(init=False)
    nodes: dict[str, Supervised] = field(init=False)

    def __post_init__(self) -> None:
        self.etcd = Supervised("etcd", self._etcd_command)
        self.nodes = {name: Supervised(name, partial(self._command, name)) for name in NODES}

    @staticmethod
    def port_names() -> list[str]:
        return ["etcd", "etcd-peer", *NODES, *(f"{name}-api" for name in NODES)]

    def hosts(self) -> str:
        """Return the hosts and ports of all nodes, in the form for a database URL."""
        return ",".join(f"{HOST}:{self.ports[name]}" for name in NODES)

    def node_dsn(self, name: str, dbname: str = "postgres") -> str:
        """Return the DSN of the superuser for one node."""
        return f"postgresql://postgres@{HOST}:{self.ports[name]}/{dbname}"

    async def start(self) -> None:
        """Start etcd and both nodes; wait until one is the primary and the other is a standby."""
        disk = self.home / "disk"
        disk.mkdir()
        for name in NODES:
            path = self.home / f"{name}.yml"
            path.write_text(json.dumps(self._settings(name)))
        if (user := unprivileged_user()) is not None:
            shutil.chown(disk, user)
        self.etcd.start()
        self.nodes[NODES[0]].start()
        await until(self.primary, "a primary", CLUSTER_SECONDS)
        self.nodes[NODES[1]].start()
        await self.await_standby()

    async def stop(self) -> None:
        for name in NODES:
            await self.crash(name)
        await self.etcd.stop(signal.SIGKILL)

    async def members(self) -> list[dict[str, Any]]:
        """Return the state of all nodes, as the first node that answers reports it."""
        for name in NODES:
            with contextlib.suppress(OSError, ValueError):
                text = await asyncio.to_thread(self._request, name, "GET", "cluster", None)
                return list(json.loads(text)["members"])
        return []

    async def primary(self) -> str | None:
        for member in await self.members():
            if member["role"] == "leader" and member["state"] == "running":
                return str(member["name"])
        return None

    async def await_standby(self) -> None:
        """Wait until both nodes run, and one replicates from the other as configured."""
        settings = await self.settings()
        wanted = "sync_standby" if settings["synchronous_mode"] else "replica"

        async def replicates() -> bool:
            members = await self.members()
            roles = {m["role"] for m in members if m["state"] in {"running", "streaming"}}
            return roles == {"leader", wanted} and len({m.get("timeline") for m in members}) == 1

        await until(replicates, f"a {wanted}", CLUSTER_SECONDS)

    async def settings(self) -> dict[str, Any]:
        """Return the settings of both nodes."""
        name = await self.primary() or NODES[0]
        return dict(json.loads(await asyncio.to_thread(self._request, name, "GET", "config", None)))

    async def set_synchronous(self, *, on: bool) -> None:
        """Turn synchronous replication on or off, and wait until this has taken effect."""
        name = await self.primary() or NODES[0]
        await asyncio.to_thread(self._request, name, "PATCH", "config", {"synchronous_mode": on})
        await self.await_standby()

    async def switch_over(self, old: str) -> None:
        """Let Patroni make the other node the primary."""
        (new,) = set(NODES) - {old}
        wanted = {"leader": old, "candidate": new}
        await asyncio.to_thread(self._request, old, "POST", "switchover", wanted)

    async def crash(self, name: str) -> None:
        """Kill all processes of a node by SIGKILL, as if its machine had crashed."""
        node = self.nodes[name]
        node.may_run.clear()
        processes = self._postgres_processes(name)
        node.kill_tree()
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await node.stop(signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """Suspend all processes of a node: its connections stay open, but get no answers."""
        node = self.nodes[name]
        node.send(signal.SIGSTOP)
        for pid in self._postgres_processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    async def cut_replication(self, name: str) -> Callable[[], None]:
        """Stop replication to the standby; return a function that lets the standby connect again.

        Until this function is called, the standby gets nothing that the primary writes.
        """
        for pid in self._postgres_processes(name):
            if b"walreceiver" in await asyncio.to_thread(Path(f"/proc/{pid}/cmdline").read_bytes):
                os.kill(pid, signal.SIGSTOP)
                os.kill(pid, signal.SIGTERM)
                return partial(os.kill, pid, signal.SIGCONT)
        raise AssertionError(f"{name} has no process that receives the write-ahead log")

    def _postgres_processes(self, name: str) -> list[int]:
        try:
            text = (self.home / "disk" / name / "postmaster.pid").read_text()
        except OSError:
            return []
        pid = int(text.split()[0])
        return [pid, *children_of(pid)]

    def _request(self, name: str, method: str, path: str, body: object) -> bytes:
        connection = http.client.HTTPConnection(
            HOST, self.ports[f"{name}-api"], timeout=CLUSTER_SECONDS
        )
        with contextlib.closing(connection):
            connection.request(method, f"/{path}", None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise OSError(f"{method} {path} was answered with {answer.status}: {text.decode()}")
        return text

    def _etcd_command(self) -> Command:
        assert ETCD is not None, "etcd is not installed"
        client = f"http://{HOST}:{self.ports['etcd']}"
        peer = f"http://{HOST}:{self.ports['etcd-peer']}"
        words = [ETCD, "--data-dir", str(self.home / "etcd"), "--name", "etcd"]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", f"etcd={peer}"]
        return Command(words=words, log=self.home / "etcd.log")

    def _command(self, name: str) -> Command:
        assert PATRONI is not None, "Patroni is not installed"
        words = [PATRONI, str(self.home / f"{name}.yml")]
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.home / "disk")}
        log = self.home / f"{name}.log"
        return Command(words=words, log=log, environment=environment, user=unprivileged_user())

    def _settings(self, name: str) -> dict[str, object]:
        api, postgres = (f"{HOST}:{self.ports[port]}" for port in (f"{name}-api", name))
        shared = {
            "ttl": TTL_SECONDS,
            "loop_wait": LOOP_SECONDS,
            "retry_timeout": 3,
            "maximum_lag_on_failover": MAX_LAG_BYTES,
            "synchronous_mode": True,
            "postgresql": {
                "use_pg_rewind": True,
                "use_slots": True,
                "parameters": {"max_connections": 100, "wal_log_hints": "on"},
            },
        }
        return {
            "scope": "waybook",
            "name": name,
            "restapi": {"listen": api, "connect_address": api},
            "etcd3": {"host": f"{HOST}:{self.ports['etcd']}"},
            "bootstrap": {
                "dcs": shared,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": postgres,
                "connect_address": postgres,
                "data_dir": str(self.home / "disk" / name),
                "bin_dir": str(DEBIAN_BINARIES),
                "pgpass": str(self.home / "disk" / f"{name}.pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                },
                "pg_hba": [
                    f"host all all {HOST}/32 trust",
                    f"host replication all {HOST}/32 trust",
                    "local all all trust",
                ],
                "parameters": {"unix_socket_directories": str(self.home / "disk")},
            },
        }


class WriteProbe:
    """Repeated write to one node, to find the times at which the node accepts writes."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        #: Time of the first successful write, and time of the last.
        self.first: float | None = None
        self.last: float | None = None

    async def run(self) -> None:
        """Write until the task is canceled."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(
                    self._dsn, autocommit=True, connect_timeout=2
                ) as connection:
                    while True:
                        await connection.execute("insert into probe values (1)")
                        self.last = loop.time()
                        self.first = self.first or self.last
                        await asyncio.sleep(0.02)
            await asyncio.sleep(0.02)
