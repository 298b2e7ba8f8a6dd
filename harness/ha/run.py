"""Failovers of the database under load: `make harness NAME=failover`.

    python -m ha.run [--agents 8] [--only TEXT]

Two servers behind HAProxy use a database of two PostgreSQL servers that Patroni manages. While
agents work, the primary fails in several ways. With synchronous replication, it is frozen, killed,
and switched over. With asynchronous replication, it is killed while the standby lags behind by a
second. The test fails if synchronous replication lost an acknowledged result, if an audit anchor
does not show a loss, if a call was lost, or if an agent waited more than two seconds longer than
the database was down.
"""

import argparse
import asyncio
import itertools
import json
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from faults.cluster import SOURCE, free_ports, query, until
from faults.wire import Address
from fleet.load import BALANCER, Phase
from fleet.run import make_token, say, working
from fleet.servers import (
    DBNAME,
    HOST,
    OWNER,
    Fleet,
    configure_balancer,
    create_database,
    new_home,
)
from ha.load import HaLoad
from ha.patroni import NODES, TTL_SECONDS, Patroni, WriteProbe
from waybook.app.operations.anchors import write_anchor
from waybook.cli.runtime import open_app
from waybook.settings_reading import read_settings

SERVERS: Final = ["server-1", "server-2"]
#: Maximum seconds that an agent may wait longer than the database was down.
MAX_EXTRA_SECONDS: Final = 2.0
WARM_SECONDS: Final = 4.0
LAG_SECONDS: Final = 1.0
RECOVERY_SECONDS: Final = 60.0

#: Function that makes the primary fail; its last argument is the node of the primary.
Failure: TypeAlias = Callable[["HaFleet", Patroni, str], Awaitable[None]]


@dataclass(slots=True)
class HaFleet(Fleet):
    """Fleet of servers whose database URL contains both nodes."""

    hosts: str = ""
    #: Time immediately before the audit anchor was written.
    anchored_at: float = 0.0

    @property
    def anchor(self) -> Path:
        """Return the path of the audit anchor, which is not in the database."""
        return self.home / "anchor.jsonl"

    def dsn(self, user: str, through: str = "postgres") -> str:
        """Return the DSN of a database role, with the addresses of both nodes."""
        del through
        return f"postgresql://{user}@{self.hosts}/{DBNAME}?target_session_attrs=read-write"


@dataclass(slots=True)
class Outcome:
    """Figures of a failover scenario."""

    name: str
    is_loss_allowed: bool = False
    #: Seconds from the old primary's last write to the new primary's first, and further seconds
    #: until the last agent worked again.
    cluster_seconds: float = 0.0
    extra_seconds: float = 0.0
    acknowledged: int = 0
    lost_results: int = 0
    #: Number of audit chains that differ from the anchor, and number of plans whose chains agree
    #: with it although a result is lost.
    detected: int = 0
    undetected: int = 0
    healed: int = 0
    lost_calls: int = 0
    failed: dict[str, int] = field(default_factory=dict)

    def violations(self) -> list[str]:
        """Return messages about everything that is wrong."""
        violations = []
        if self.lost_results and not self.is_loss_allowed:
            violations.append(f"{self.name}: {self.lost_results} acknowledged results lost")
        if self.lost_calls:
            violations.append(f"{self.name}: {self.lost_calls} calls lost")
        if bool(self.lost_results) != bool(self.detected):
            violations.append(
                f"{self.name}: {self.lost_results} results lost, "
                f"but the anchor shows {self.detected} damaged chains"
            )
        if self.undetected:
            violations.append(
                f"{self.name}: the anchor does not show the loss in {self.undetected} plans"
            )
        if self.extra_seconds > MAX_EXTRA_SECONDS:
            violations.append(
                f"{self.name}: an agent waited {self.extra_seconds:.1f} s after the failover"
            )
        return violations


@asynccontextmanager
async def running() -> AsyncIterator[tuple[HaFleet, Patroni]]:
    """Start the database and HAProxy; at the end, stop all processes and delete their files."""
    home = new_home("ha")
    ports = free_ports([*Patroni.port_names(), "balancer", *SERVERS])
    cluster = Patroni(home, ports)
    fleet = HaFleet(home, ports, SERVERS, hosts=cluster.hosts())
    try:
        await cluster.start()
        name = await cluster.primary() or NODES[0]
        await create_database(fleet, cluster.node_dsn(name))
        await asyncio.to_thread(query, cluster.node_dsn(name), "create table probe (n int)")
        configure_balancer(fleet)
        fleet.balancer.start()
        yield fleet, cluster
    finally:
        for server in fleet.servers.values():
            await server.stop(signal.SIGKILL)
        await fleet.balancer.stop(signal.SIGKILL)
        await cluster.stop()
        shutil.rmtree(home, ignore_errors=True)


async def kill_primary(_: HaFleet, cluster: Patroni, old: str) -> None:
    """Kill the primary, as if its machine had crashed."""
    await cluster.crash(old)


async def freeze_primary(_: HaFleet, cluster: Patroni, old: str) -> None:
    """Freeze the primary, which then accepts connections without answering."""
    cluster.freeze(old)


async def kill_primary_ahead(fleet: HaFleet, cluster: Patroni, old: str) -> None:
    """Stop replication to the standby, wait for a moment, and kill the primary.

    Before the kill, this process writes an audit anchor, which shows the loss later. A separate
    command would take seconds, in which more results would be lost.
    """
    (standby,) = set(NODES) - {old}
    settings = read_settings({"database_url": fleet.dsn(OWNER)}, {}).settings
    async with open_app(settings) as session:
        resume = await cluster.cut_replication(standby)
        await asyncio.sleep(LAG_SECONDS)
        fleet.anchored_at = time.monotonic()
        await write_anchor(session.call, fleet.anchor)
        await cluster.crash(old)
        resume()


async def scenario(
    fleet: HaFleet, cluster: Patroni, load: HaLoad, outcome: Outcome, fail: Failure
) -> Outcome:
    """Let the primary fail under load; measure the time until every agent works again."""
    old = await cluster.primary()
    assert old is not None
    (new,) = set(NODES) - {old}
    phase = load.begin(outcome.name)
    await asyncio.sleep(WARM_SECONDS)
    probes = {name: WriteProbe(cluster.node_dsn(name)) for name in NODES}
    tasks = [asyncio.create_task(probe.run()) for probe in probes.values()]
    try:
        await until(lambda: _has_written(probes[old]), "the primary accepts writes")
        await fail(fleet, cluster, old)
        await until(
            lambda: _has_written(probes[new]), "the new primary accepts writes", RECOVERY_SECONDS
        )
        begun, ended = probes[old].last, probes[new].first
        assert begun is not None
        assert ended is not None
        load.await_answers_after(ended)
        await until(load.all_answered, "every agent works again", RECOVERY_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
    outcome.cluster_seconds = ended - begun
    outcome.extra_seconds = load.last_first_answer() - ended
    if fail is not switch_over:
        await cluster.crash(old)
        cluster.nodes[old].start()
    await cluster.await_standby()
    await _count(fleet, load, outcome, phase)
    return outcome


async def switch_over(_: HaFleet, cluster: Patroni, old: str) -> None:
    """Let Patroni make the standby the primary."""
    await cluster.switch_over(old)


async def _has_written(probe: WriteProbe) -> bool:
    return probe.first is not None


async def _count(fleet: HaFleet, load: HaLoad, outcome: Outcome, phase: Phase) -> None:
    """Count the lost results; add them and the counts of calls to the outcome."""
    acknowledged, load.results = load.results, {}
    rows = await fleet.sql("select step_id from step_result")
    stored = {str(step) for (step,) in rows}
    lost = [result for step, result in acknowledged.items() if step not in stored]
    outcome.acknowledged, outcome.lost_results = len(acknowledged), len(lost)
    if fleet.anchor.exists():
        damaged = await _damaged_chains(fleet)
        plans = {result.plan_id for result in lost if result.at < fleet.anchored_at}
        outcome.detected, outcome.undetected = len(damaged), len(plans - damaged)
        await asyncio.to_thread(fleet.anchor.unlink)
    outcome.healed, outcome.lost_calls = phase.healed, phase.lost
    outcome.failed = phase.failed_attempts


async def _damaged_chains(fleet: HaFleet) -> set[str]:
    """Return the ids of the plans whose audit chains differ from the anchor."""
    words = ("audit", "anchor", str(fleet.anchor), "--json")
    checked = json.loads(await fleet.command(SOURCE, *words, may_fail=True))
    messages = itertools.chain.from_iterable(checked.get("errors", {}).values())
    return {message.partition(":")[0].split()[-1] for message in messages}


def print_outcome(outcome: Outcome) -> None:
    """Print the figures of a scenario as a line of a table."""
    failed = ", ".join(f"{count} {cause}" for cause, count in outcome.failed.items())
    say(
        f"{outcome.name:40}{outcome.cluster_seconds:9.1f}{outcome.extra_seconds:9.2f}"
        f"{outcome.acknowledged:13}{outcome.lost_results:6}{outcome.detected:9}{outcome.healed:8}"
        f"{outcome.lost_calls:6}  {failed or 'none'}"
    )


async def main(agents: int, only: str) -> int:
    outcomes = []
    async with running() as (fleet, cluster):
        token = await make_token(fleet)
        for name in SERVERS:
            fleet.start_server(name, SOURCE)
        for name in SERVERS:
            await fleet.await_ready(name)
        address = Address(fleet.ports[BALANCER], f"{HOST}:{fleet.ports[BALANCER]}")
        load = HaLoad(address, token, agents)
        say(f"2 servers, {agents} agents, HAProxy, Patroni with 2 nodes, ttl {TTL_SECONDS} s")
        say(
            f"{'scenario':40}{'cluster s':>9}{'beyond s':>9}{'acknowledged':>13}{'lost':>6}"
            f"{'detected':>9}{'healed':>8}{'calls':>6}  failed attempts"
        )
        async with working(load, agents):
            for name, fail, is_async in SCENARIOS:
                if only not in name:
                    continue
                await cluster.set_synchronous(on=not is_async)
                outcome = Outcome(name, is_loss_allowed=is_async)
                outcomes.append(await scenario(fleet, cluster, load, outcome, fail))
                print_outcome(outcome)
    violations = [violation for outcome in outcomes for violation in outcome.violations()]
    say("\n".join(violations) if violations else "no violation")
    return int(bool(violations))


#: Scenarios: name, function that makes the primary fail, and whether replication is asynchronous.
SCENARIOS: Final = (
    ("primary frozen, synchronous", freeze_primary, False),
    ("primary killed, synchronous", kill_primary, False),
    ("switchover, synchronous", switch_over, False),
    ("primary killed, asynchronous, 1 s lag", kill_primary_ahead, True),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--only", default="", help="run scenarios whose name has this text")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.agents, options.only)))
