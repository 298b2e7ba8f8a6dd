"""Recovery times after five kinds of faults, each caused several times under a light load."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from faults.agents import Workload
from faults.cluster import DIRECT, SERVERS, Cluster, Options, running_cluster, start_servers
from faults.conduct import make_agents, working
from faults.history import History
from faults.injector import Injector
from faults.schedule import Fault, Kind
from faults.tenants import USERS, Tenant, make_tenants

#: For each kind of fault, how often it is caused, and how long it lasts.
ROUNDS: Final = (
    (Kind.DATABASE_RESET, 25, 0.0),
    (Kind.TERMINATE, 5, 0.0),
    (Kind.DATABASE_BLACK_HOLE, 2, 6.0),
    (Kind.HTTP_BLACK_HOLE, 2, 6.0),
    (Kind.DATABASE_KILL, 10, 0.0),
)
#: Maximum times from the end of a fault to the first successful call: of the server that connects
#: to PostgreSQL directly, and of the one behind pgbouncer.
MAX_SECONDS: Final = {DIRECT: 2.0}
MAX_POOLED_SECONDS: Final = 4.0
MAX_EXIT_SECONDS: Final = 5.0
#: Pause of an agent between calls, so that it makes about one call per second.
LOAD_PAUSE_SECONDS: Final = 1.0
WARM_UP_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 0.5


@dataclass(slots=True)
class Measured:
    """Measured recovery times, and messages about times that exceed their limit."""

    injector: Injector
    history: History
    exit_seconds: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


@asynccontextmanager
async def light_load(
    cluster: Cluster, tenants: list[Tenant], seed: int, *, pause_seconds: float
) -> AsyncIterator[Workload]:
    canaries = {tenant.slug: tenant.canary for tenant in tenants}
    history = History(canaries, cluster.home / "history.jsonl")
    work = Workload(cluster.addresses(), history, random.Random(seed), tenants)
    work.misbehaves, work.pause_seconds = False, pause_seconds
    async with working(make_agents(work)):
        try:
            yield work
        finally:
            work.is_over = True
    history.close()


async def measure(seed: int, source: Path) -> Measured:
    """Cause all faults several times; compare the recovery times with their limits."""
    async with running_cluster(Options(source=source, disk_megabytes=None)) as cluster:
        tenants = await make_tenants(cluster, random.Random(seed))
        await start_servers(cluster)
        injector = Injector(cluster, tenants[0].tokens[USERS[0]])
        async with light_load(cluster, tenants, seed, pause_seconds=LOAD_PAUSE_SECONDS) as work:
            measured = Measured(injector, work.history)
            await _warm_up(injector)
            for kind, rounds, seconds in ROUNDS:
                for _ in range(rounds):
                    await _round(injector, kind, seconds)
        await _exits(cluster, tenants, measured)
    _judge(measured)
    return measured


async def _warm_up(injector: Injector) -> None:
    """Make calls to both servers, because the first calls of a process are slower."""
    for server in SERVERS:
        await injector.first_success(server, time.monotonic())
    await asyncio.sleep(WARM_UP_SECONDS)


async def _round(injector: Injector, kind: Kind, seconds: float) -> None:
    """Cause a fault, on each server in turn if it is a fault of one server."""
    both = kind not in {Kind.TERMINATE, Kind.DATABASE_KILL}
    for server in SERVERS if both else SERVERS[:1]:
        error = Fault(kind=kind, server=server, seconds=seconds, pause_seconds=0, forward=True)
        await injector.inject(error)
        await asyncio.sleep(SETTLE_SECONDS)


async def _exits(cluster: Cluster, tenants: list[Tenant], measured: Measured) -> None:
    """Stop and restart each server while agents work; measure the time until it ends."""
    async with light_load(cluster, tenants, 1, pause_seconds=LOAD_PAUSE_SECONDS) as work:
        await asyncio.sleep(SETTLE_SECONDS)
        for name, server in cluster.servers.items():
            measured.exit_seconds[name] = await server.stop(signal.SIGTERM)
            server.start()
            await cluster.await_listening(name)
        measured.history.hung += work.history.hung


def _judge(measured: Measured) -> None:
    for (kind, server), seconds in measured.injector.recoveries.items():
        limit = MAX_SECONDS.get(server, MAX_POOLED_SECONDS)
        measured.violations += [
            f"{kind}, {server}: {duration:.2f} s to the first success; the limit is {limit} s"
            for duration in seconds
            if duration > limit
        ]
    measured.violations += [
        f"SIGTERM, {server}: {seconds:.2f} s to the end; the limit is {MAX_EXIT_SECONDS} s"
        for server, seconds in measured.exit_seconds.items()
        if seconds > MAX_EXIT_SECONDS
    ]
    measured.violations += [
        f"{hung.tool} on {hung.server} hung for {hung.seconds:.1f} s"
        for hung in measured.history.hung
    ]
