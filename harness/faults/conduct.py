"""Course of the fault test: start, cause and end faults, finish the work, read the data."""

import asyncio
import contextlib
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from faults.agents import Agent, Workload
from faults.checkers import Evidence, Violation, check, nothing_stuck
from faults.cluster import Cluster, Options, query, running_cluster, start_servers, until
from faults.history import History
from faults.injector import Injector
from faults.plan_agents import PlanAgent
from faults.rows import Rows, read_rows
from faults.run_agents import RunAgent
from faults.schedule import Kind, draw
from faults.tenants import RECIPE, USERS, Tenant, inside, make_tenants
from waybook.cli.operator.anchoring import verify_all
from waybook.cli.runtime import AppSession

DRAIN_SECONDS: Final = 120.0
STOP_SECONDS: Final = 100.0
PEEK_SECONDS: Final = 1.0
CHAIN_FAULTS: Final = ("is missing", "seal", "twice", "added from outside", "deleted")
OPEN_PLANS: Final = "select id::text from plan where org_id = %s and completed_at is null"
OPEN_RUNS: Final = "select id::text from run where org_id = %s and completed_at is null"
UNNAMED: Final = "select coalesce(current_setting('app.org_id', true), ''), count(*) from plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    seed: int
    counts: Mapping[Kind, int]
    options: Options = field(default_factory=Options)
    pause_seconds: float = 0.5
    #: Time after which no more faults are caused, even if not all scheduled ones have been.
    max_seconds: float = 170.0
    #: Minimum number of acknowledged calls. After the faults, agents work until it is reached.
    min_acknowledged: int = 0
    #: True if all open plans and runs are completed after the faults.
    drains: bool = True


@dataclass(slots=True, kw_only=True)
class Result:
    assignment: Assignment
    home: Path
    seconds: float
    history: History
    injector: Injector
    violations: list[Violation]
    internal_errors: tuple[str, ...]
    drain_seconds: float | None
    server_starts: Counter[str]


async def conduct(assignment: Assignment) -> Result:
    begun, rng = time.monotonic(), random.Random(assignment.seed)
    async with running_cluster(assignment.options) as cluster:
        tenants = await make_tenants(cluster, rng)
        await start_servers(cluster)
        canaries = {tenant.slug: tenant.canary for tenant in tenants}
        history = History(canaries, cluster.home / "history.jsonl")
        work = Workload(cluster.addresses(), history, random.Random(rng.getrandbits(64)), tenants)
        injector = Injector(cluster, tenants[0].tokens[USERS[0]])
        async with working(make_agents(work)), peeking(cluster) as seen:
            await _break(assignment, injector, history, rng)
            await injector.heal_everything()
            drained = await _drain(cluster, work) if assignment.drains else None
            work.is_over = True
        rows = await read_rows(cluster)
        await verify(cluster, rows)
        internal = internal_errors(cluster.home)
        evidence = Evidence(
            history=history,
            rows=rows,
            before={key: before for key, (_, before) in RECIPE.items()},
            internal_errors=internal,
            unnamed_sees=tuple(seen),
            was_drained=drained is None or drained < DRAIN_SECONDS,
        )
        violations = check(evidence)
        if not assignment.drains:
            violations = [v for v in violations if v.checker != nothing_stuck.__name__]
        starts = Counter({name: server.starts for name, server in cluster.servers.items()})
        home = cluster.home
    history.close()
    return Result(
        assignment=assignment,
        home=home,
        seconds=time.monotonic() - begun,
        history=history,
        injector=injector,
        violations=violations,
        internal_errors=internal,
        drain_seconds=drained,
        server_starts=starts,
    )


def make_agents(work: Workload) -> list[Agent]:
    """Return three agents for each user, two for plans and one for runs."""
    agents: list[Agent] = []
    for tenant in work.tenants:
        for user in tenant.tokens:
            agents += [PlanAgent(work, tenant, user, session) for session in ("main", "side")]
            agents.append(RunAgent(work, tenant, user, "main"))
    return agents


@asynccontextmanager
async def working(agents: list[Agent]) -> AsyncIterator[None]:
    """Let the agents work during the block, and finish their current calls at the end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(agent.live()) for agent in agents]
        yield
        _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
        assert not late, f"{len(late)} agents did not stop"


@asynccontextmanager
async def peeking(cluster: Cluster) -> AsyncIterator[list[str]]:
    """During the block, check through pgbouncer that a transaction without an org sees no rows."""
    seen: list[str] = []

    async def peek() -> None:
        while True:
            with contextlib.suppress(psycopg.Error):
                org, plans = (await asyncio.to_thread(query, cluster.pooled_dsn, UNNAMED))[0]
                if org or plans:
                    seen.append(f"a transaction without an org saw {plans} plans of org {org!r}")
            await asyncio.sleep(PEEK_SECONDS)

    task = asyncio.create_task(peek())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _break(
    assignment: Assignment, injector: Injector, history: History, rng: random.Random
) -> None:
    end = time.monotonic() + assignment.max_seconds
    await asyncio.sleep(2.0)
    for error in draw(assignment.counts, rng, assignment.pause_seconds):
        if time.monotonic() > end:
            break
        await injector.inject(error)
        await asyncio.sleep(error.pause_seconds)
    while history.acknowledged < assignment.min_acknowledged and time.monotonic() < end:
        await asyncio.sleep(0.5)


async def _drain(cluster: Cluster, work: Workload) -> float:
    """Complete all open plans and runs; return how many seconds this took."""
    work.misbehaves = work.makes_new = False
    work.patience_seconds = 1.0
    begun = time.monotonic()
    while time.monotonic() - begun < DRAIN_SECONDS:
        await _adopt(cluster, work.tenants)
        if not any(tenant.plans or tenant.runs for tenant in work.tenants):
            return time.monotonic() - begun
        await asyncio.sleep(1.0)
    return DRAIN_SECONDS


async def _adopt(cluster: Cluster, tenants: list[Tenant]) -> None:
    """Let the agents work on all open plans and runs, also on those that no reply mentioned."""
    for tenant in tenants:
        for statement, known in ((OPEN_PLANS, tenant.plans), (OPEN_RUNS, tenant.runs)):
            rows = await cluster.sql(statement, tenant.org_id)
            known.clear()
            known.update(row[0] for row in rows)


async def verify(cluster: Cluster, rows: Rows) -> None:
    """Verify the audit in this process, because the servers' code may contain a planted bug."""
    await until(cluster.postgres_is_ready, "PostgreSQL accepts connections")
    async with inside(cluster) as here:
        for org_id, verdict in await verify_all(AppSession(here).call, bar=False):
            for error in verdict.errors:
                message = f"org {org_id}, {verdict.subject.kind} {verdict.subject.id}: {error}"
                is_chain = any(word in error for word in CHAIN_FAULTS)
                (rows.broken_chains if is_chain else rows.replay_differences).append(message)


def internal_errors(home: Path) -> tuple[str, ...]:
    errors = []
    for name in ("direct", "pooled"):
        lines = (home / f"{name}.log").read_text(errors="replace").splitlines()
        errors += [f"{name}: {line[:2000]}" for line in lines if _is_error(line)]
    return tuple(errors)


def _is_error(line: str) -> bool:
    if line.startswith("Traceback"):
        return True
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and (
        "trace" in record or record.get("level") in {"ERROR", "CRITICAL"}
    )


def remove_home(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
