"""Injection of faults: cause a fault, end it, and measure when calls succeed again."""

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import psycopg

from faults import disk
from faults.cluster import DATABASE, HTTP, SERVERS, Cluster
from faults.schedule import Fault, Kind
from faults.wire import Broken, Overdue, Wire

PROBE_SECONDS: Final = 0.1
MAX_RECOVERY_SECONDS: Final = 60.0
MAX_PROBES: Final = 40
LOST_ANSWERS: Final = 6
#: Texts that occur in every message to PostgreSQL that commits changes. `DATABASE_LOST_ANSWER`
#: loses the answers to messages that contain all of these texts.
COMMIT: Final = ("insert", "commit")
NO_DISK: Final = "disk full: SKIPPED, a small file system cannot be mounted here (root can)"
NO_CLOCK: Final = "server clock: SKIPPED, libfaketime is not installed"
TERMINATE: Final = """select pg_terminate_backend(pid) from pg_stat_activity
                       where backend_type = 'client backend' and pid <> pg_backend_pid()"""


@dataclass(slots=True)
class Injector:
    """Injector of faults, one after the other."""

    cluster: Cluster
    #: Token for calls that test whether a server works again.
    token: str
    counts: Counter[Kind] = field(default_factory=Counter)
    #: Seconds from the end of each fault to the first successful call, by kind of fault and by
    #: server.
    recoveries: dict[tuple[Kind, str], list[float]] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)

    async def inject(self, error: Fault) -> None:
        """Cause a fault, end it, and wait until a call succeeds again."""
        action = self._actions()[error.kind]
        healed = await action(error)
        if healed is None:
            return
        self.counts[error.kind] += 1
        servers = SERVERS if error.kind in EVERYWHERE else (error.server,)
        took = await asyncio.gather(
            *[self.first_success(server_name, healed) for server_name in servers]
        )
        for server, seconds in zip(servers, took, strict=True):
            self.recoveries.setdefault((error.kind, server), []).append(seconds)

    def _actions(self) -> Mapping[Kind, Callable[[Fault], Awaitable[float | None]]]:
        return {
            Kind.SERVER_KILL: self._kill_server,
            Kind.SERVER_PAUSE: self._pause_server,
            Kind.DATABASE_KILL: self._kill_database,
            Kind.TERMINATE: self._terminate,
            Kind.POOLER_KILL: self._kill_pooler,
            Kind.DISK_FULL: self._fill_disk,
            Kind.CLOCK: self._shift_clock,
            Kind.HTTP_RESET: self._cut,
            Kind.DATABASE_RESET: self._cut,
            Kind.HTTP_DELAY: self._delay,
            Kind.DATABASE_DELAY: self._delay,
            Kind.HTTP_HALF_CLOSE: self._half_close,
            Kind.DATABASE_HALF_CLOSE: self._half_close,
            Kind.HTTP_BLACK_HOLE: self._black_hole,
            Kind.DATABASE_BLACK_HOLE: self._black_hole,
            Kind.HTTP_LOST_ANSWER: self._lose_answers,
            Kind.DATABASE_LOST_ANSWER: self._lose_answers,
        }

    async def _kill_server(self, error: Fault) -> float:
        server = self.cluster.servers[error.server]
        starts = server.starts
        server.send(signal.SIGKILL)
        return await self._restarted(error.server, starts)

    async def _restarted(self, name: str, starts: int) -> float:
        server, end = self.cluster.servers[name], time.monotonic() + MAX_RECOVERY_SECONDS
        while server.starts == starts and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return await self.cluster.await_listening(name)

    async def _pause_server(self, error: Fault) -> float:
        server = self.cluster.servers[error.server]
        server.send(signal.SIGSTOP)
        await asyncio.sleep(error.seconds)
        server.send(signal.SIGCONT)
        return time.monotonic()

    async def _kill_database(self, _: Fault) -> float:
        postgres = self.cluster.postgres
        starts = postgres.starts
        postgres.kill_tree()
        while postgres.starts == starts:
            await asyncio.sleep(0.01)
        return await self.cluster.await_postgres()

    async def _terminate(self, _: Fault) -> float:
        with contextlib.suppress(psycopg.OperationalError):
            await self.cluster.sql(TERMINATE)
        return time.monotonic()

    async def _kill_pooler(self, _: Fault) -> float:
        pooler = self.cluster.pooler
        starts = pooler.starts
        pooler.send(signal.SIGKILL)
        while pooler.starts == starts:
            await asyncio.sleep(0.01)
        return await self.cluster.await_listening("pgbouncer")

    async def _fill_disk(self, error: Fault) -> float | None:
        place = self.cluster.disk
        if not disk.can_be_filled(place):
            self.skipped.add(NO_DISK)
            return None
        await asyncio.to_thread(disk.fill, place)
        await asyncio.sleep(error.seconds)
        disk.free(place)
        return await self.cluster.await_postgres()

    async def _shift_clock(self, error: Fault) -> float | None:
        if not self.cluster.can_shift_clocks:
            self.skipped.add(NO_CLOCK)
            return None
        self.cluster.clock_hours[error.server] = 2 if error.forward else -2
        return await self._kill_server(error)

    async def _cut(self, error: Fault) -> float:
        await self.cluster.network(_hop(error), error.server, "cut")
        return time.monotonic()

    async def _delay(self, error: Fault) -> float:
        await self.cluster.network(_hop(error), error.server, "delay", seconds=0.1)
        return await self._heal_after(error)

    async def _half_close(self, error: Fault) -> float:
        await self.cluster.network(_hop(error), error.server, "half_close", to_target=error.forward)
        return time.monotonic()

    async def _black_hole(self, error: Fault) -> float:
        await self.cluster.network(_hop(error), error.server, "black_hole")
        return await self._heal_after(error)

    async def _lose_answers(self, error: Fault) -> float:
        hop = _hop(error)
        markers = COMMIT if hop == DATABASE else ()
        await self.cluster.network(
            hop, error.server, "lose_answers", count=LOST_ANSWERS, markers=markers
        )
        return await self._heal_after(error)

    async def _heal_after(self, error: Fault) -> float:
        await asyncio.sleep(error.seconds)
        await self.cluster.network(_hop(error), error.server, "heal")
        return time.monotonic()

    async def heal_everything(self) -> None:
        """End all faults that may still be active, and set the clocks right."""
        cluster = self.cluster
        for server in SERVERS:
            for hop in (HTTP, DATABASE):
                await cluster.network(hop, server, "heal")
        disk.free(cluster.disk)
        await cluster.await_postgres()
        for server in SERVERS:
            cluster.servers[server].send(signal.SIGCONT)
            if cluster.clock_hours[server]:
                cluster.clock_hours[server] = 0
                starts = cluster.servers[server].starts
                cluster.servers[server].send(signal.SIGKILL)
                await self._restarted(server, starts)

    async def first_success(self, server: str, healed: float) -> float:
        """Call a server until a call succeeds; return the seconds since the end of the fault."""
        end, probes = healed + MAX_RECOVERY_SECONDS, set[asyncio.Task[float | None]]()
        try:
            while time.monotonic() < end:
                if len(probes) < MAX_PROBES:
                    probes.add(asyncio.create_task(self._probe(server)))
                done, probes = await asyncio.wait(probes, timeout=PROBE_SECONDS)
                answered = [at for task in done if (at := task.result()) is not None]
                if answered:
                    return max(0.0, min(answered) - healed)
                if done:
                    await asyncio.sleep(PROBE_SECONDS / 2)
        finally:
            for probe in probes:
                probe.cancel()
            await asyncio.gather(*probes, return_exceptions=True)
        return MAX_RECOVERY_SECONDS

    async def _probe(self, server: str) -> float | None:
        wire = Wire(self.cluster.addresses(), self.token)
        try:
            answer = await wire.call(server, "list_active_plans", {"limit": 1}, 10.0)
            is_ok = answer.status == 200 and not answer.tool_result()[0]
        except (Broken, Overdue):
            return None
        finally:
            wire.close()
        return time.monotonic() if is_ok else None


EVERYWHERE: Final = frozenset({Kind.DATABASE_KILL, Kind.TERMINATE, Kind.DISK_FULL})


def _hop(error: Fault) -> str:
    return DATABASE if error.kind.endswith("database") else HTTP
