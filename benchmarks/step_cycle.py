"""Rate of step cycles (claim and submit), compared with two hand-written SQL functions.

Waybook and the SQL functions run alternately on the same embedded server, with 16 concurrent
workers. Each worker has its own plans of ten steps, created before the measurement. The SQL
functions (the "peer") give the same guarantees, which `step_cycle_peer.sql` lists. As in Waybook,
calls that wait at the same time are sent in one message and are committed together. Waybook also
applies all of its other rules.

With `--cold`, Waybook is compared with itself in four modes:

- warm: the process has every plan in memory.
- cold: the process has to read the plan for every call.
- sticky: there are two instances of Waybook, and each plan is in the memory of one of them.
- stale: two instances take turns on every plan, so that each finds its copy out of date.

Concurrent calls of one instance share messages to PostgreSQL. Each of two instances has fewer
concurrent calls and therefore sends more messages per call, so compare stale with sticky. CPU time
is that of Python and PostgreSQL.

    python benchmarks/step_cycle.py [--cycles 3200] [--rounds 3] [--cold [--steps 200]]
"""

import argparse
import asyncio
import resource
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import TypeAlias

import uvloop
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from job_cycle import Meter
from limits import Check, finish
from waybook.accounts.model import LOCAL_ORG
from waybook.application import database_server
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.core.decision_context import Channel
from waybook.settings_reading import read_settings
from waybook.store.plans.cache import PlanCache

#: Per claim and submit: CPU microseconds of Python and of PostgreSQL, number of messages, number of
#: statements.
Cost: TypeAlias = tuple[float, float, float, float]
Pool: TypeAlias = AsyncConnectionPool[AsyncConnection[TupleRow]]

WORKERS = 16
STEPS = 10
#: Minimum rate of Waybook, as a fraction of the SQL functions' rate.
MIN_RATIO = 0.44
#: For each pair of modes, the maximum CPU time to claim and submit a step in the first mode, as a
#: multiple of that in the second. `COLD_GOAL` is the goal for all pairs.
MAX_COLD_RATIOS = {("cold", "warm"): 1.44, ("stale", "warm"): 1.46, ("stale", "sticky"): 1.28}
COLD_GOAL = 1.2
CONNECTION_OPTIONS = {"autocommit": True}

PEER = Path(__file__).with_name("step_cycle_peer.sql")
RESULT = '{"findings": "Three sources agree; one is older than the rest.", "sources": [1, 2, 3]}'
INSTRUCTIONS = "Read the three newest sources and note where they disagree. " * 4


# Functions that measure Waybook


async def create_plans(system: Application, count: int, length: int = STEPS) -> list[object]:
    """Create plans of `length` steps; return their ids."""
    steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * length
    arguments: dict[str, object] = {"name": "b", "researchQuestion": "How fast?", "steps": steps}
    return [(await call(system, "create_research_plan", arguments))["planId"] for _ in range(count)]


async def call(system: Application, tool: str, arguments: dict[str, object]) -> dict[str, object]:
    answer = await system.dispatcher.dispatch(system.caller(Channel.MCP), tool, arguments)
    assert not answer.is_error, answer.body
    return answer.body


async def work_through(
    system: Application,
    session: str,
    plans: list[object],
    other: Application | None = None,
    *,
    cold: bool = False,
    length: int = STEPS,
) -> None:
    """Claim and submit every step of these plans, by tool calls in this process.

    If `other` is given, results are submitted to that instance. With `cold`, plans are
    removed from memory before each call.
    """
    for number, plan in enumerate(plans):
        for step in range(length):
            key = f"{session}-{number}-{step}"
            common: dict[str, object] = {"sessionId": session, "idempotencyKey": key}
            if cold:
                system.dispatcher.services.shared(PlanCache).clear()
            ready = await call(system, "get_next_step", {"planId": plan, **common})
            held = {"stepId": ready["stepId"], "attempt": ready["attempt"]}
            result = {"resultSummary": RESULT, "confidence": 0.8}
            if cold:
                system.dispatcher.services.shared(PlanCache).clear()
            await call(other or system, "submit_step_result", {**held, **result, **common})


async def waybook_round(system: Application, turn: int, each: int) -> tuple[float, float]:
    """Measure Waybook once; return its rate, and its CPU time per claim and submit."""
    plans = [await create_plans(system, each) for _ in range(WORKERS)]
    workers = [work_through(system, f"{turn}-{n}", mine) for n, mine in enumerate(plans)]
    return await rate(list(workers), WORKERS * each * STEPS)


# Functions that measure the SQL functions (the peer)

CREATE_PLAN = """
with made as (insert into peer.plan (org_id, id, status) values (%s, %s, 'planning'))
insert into peer.step (org_id, plan_id, n, status, instructions)
select %s, %s, n, 'pending', %s from generate_series(1, %s) n
"""
TAKE = "select peer.take(%s, %s, %s, %s)"
SUBMIT = "select peer.submit(%s, %s, %s, %s, %s, %s, %s)"


async def create_peer_plans(owner: Pool, first: int, count: int) -> list[int]:
    """Create plans of ten steps for the SQL functions; return their ids."""
    async with owner.connection() as connection:
        for plan in range(first, first + count):
            values = (LOCAL_ORG, plan, LOCAL_ORG, plan, INSTRUCTIONS, STEPS)
            await connection.execute(CREATE_PLAN, values)
    return list(range(first, first + count))


class Groups:
    """Queue of calls of the SQL functions; calls that wait in it are committed together."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[str, tuple[object, ...], asyncio.Future[TupleRow]]]
        self._waiting = asyncio.Queue()

    async def call(self, query: str, *values: object) -> TupleRow:
        done = asyncio.get_running_loop().create_future()
        await self._waiting.put((query, values, done))
        row: TupleRow = await done
        return row

    async def commit_groups(self, connection: AsyncConnection[TupleRow]) -> None:
        """Execute all waiting calls together in one transaction, and repeat this until canceled."""
        while True:
            group = [await self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            async with connection.pipeline(), connection.transaction():
                cursors = [await connection.execute(query, values) for query, values, _ in group]
                rows = [await cursor.fetchone() for cursor in cursors]
            for (_, _, done), row in zip(group, rows, strict=True):
                assert row
                done.set_result(row)


@asynccontextmanager
async def open_groups(dsn: str) -> AsyncIterator[Groups]:
    """Yield a queue of calls, which two connections commit in groups."""
    groups = Groups()
    async with (
        await AsyncConnection.connect(dsn, autocommit=True) as first,
        await AsyncConnection.connect(dsn, autocommit=True) as second,
    ):
        committing = [asyncio.create_task(groups.commit_groups(c)) for c in (first, second)]
        try:
            yield groups
        finally:
            for task in committing:
                task.cancel()
            await asyncio.wait(committing)


async def work_through_as_peer(groups: Groups, session: str, plans: list[int]) -> None:
    """Claim and submit every step of these plans, by the two SQL functions."""
    for plan in plans:
        for step in range(STEPS):
            (took,) = await groups.call(TAKE, LOCAL_ORG, plan, session, f"t{plan}-{step}")
            held = (took["step"], took["attempt"])
            key = f"s{plan}-{step}"
            await groups.call(SUBMIT, LOCAL_ORG, plan, *held, RESULT, session, key)


async def peer_round(owner: Pool, groups: Groups, turn: int, each: int) -> tuple[float, float]:
    """Measure the SQL functions once; return their rate, and CPU time per claim and submit."""
    firsts = [(turn * WORKERS + n) * each for n in range(WORKERS)]
    plans = [await create_peer_plans(owner, first, each) for first in firsts]
    workers = [work_through_as_peer(groups, f"{turn}-{n}", mine) for n, mine in enumerate(plans)]
    return await rate(list(workers), WORKERS * each * STEPS)


# Functions that compare Waybook with the SQL functions


async def rate(workers: list[Awaitable[None]], cycles: int) -> tuple[float, float]:
    """Let the workers work; return steps per second, and Python CPU microseconds per step."""
    cpu, wall = _cpu(), time.perf_counter()
    await asyncio.gather(*workers)
    return cycles / (time.perf_counter() - wall), (_cpu() - cpu) / cycles * 1e6


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main(cycles: int, rounds: int) -> None:
    """Measure Waybook and the SQL functions in turn, and compare them; ignore the first round."""
    own, peers, each = [], [], max(1, cycles // (WORKERS * STEPS))
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder, "pool_size": WORKERS}, {}).settings
        async with (
            start_application(settings, sweeping=False) as system,
            database_server(settings) as postgres,
            Pool(postgres.owner_dsn, min_size=1, kwargs=CONNECTION_OPTIONS) as owner,
            open_groups(postgres.app_dsn) as groups,
        ):
            async with owner.connection() as connection:
                await connection.execute(PEER.read_bytes())
            freeze_gc()
            for turn in range(rounds + 1):
                own.append(await waybook_round(system, turn, each))
                peers.append(await peer_round(owner, groups, turn, each))
    report(own[1:], peers[1:])


# Functions for the option `--cold`


async def cost_round(
    meter: Meter,
    systems: tuple[Application, Application],
    mode: str,
    turn: int,
    cycles: int,
    length: int,
) -> Cost:
    """Measure one mode once; return the cost of claiming and submitting a step."""
    count = max(1, cycles // (WORKERS * length))
    work = []
    for number in range(WORKERS):
        system = systems[number % 2 if mode == "sticky" else 0]
        other = systems[1] if mode == "stale" else None
        plans = await create_plans(system, count, length)
        session, is_cold = f"{mode}-{turn}-{number}", mode == "cold"
        work.append(work_through(system, session, plans, other, cold=is_cold, length=length))
    before = meter.read()
    await asyncio.gather(*work)
    used, done = meter.read(), WORKERS * count * length
    python, postgres, messages, statements = (
        (after - earlier) / done for earlier, after in zip(before, used, strict=True)
    )
    return python * 1e6, postgres * 1e6, messages, statements


async def compare_cold(cycles: int, rounds: int, length: int) -> None:
    """Measure warm, cold, sticky and stale plans in turn; do not count the first round."""
    costs = defaultdict[str, list[Cost]](list)
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder, "pool_size": WORKERS}, {}).settings
        async with (
            start_application(settings, sweeping=False) as system,
            start_application(settings, sweeping=False) as other,
        ):
            meter = Meter(folder)
            freeze_gc()
            with meter.counting():
                for turn in range(rounds + 1):
                    for mode in ("warm", "cold", "sticky", "stale"):
                        systems = system, other
                        cost = await cost_round(meter, systems, mode, turn, cycles, length)
                        costs[mode].append(cost)
    report_cold({mode: of[1:] for mode, of in costs.items()})


def report_cold(costs: dict[str, list[Cost]]) -> None:
    """Print the medians of the rounds; exit with code 1 if a limit is exceeded."""
    columns = ("Python µs", "PostgreSQL µs", "messages", "statements")
    print(f"{'step cycle':12}" + "".join(f"{column:>15}" for column in columns))
    for name, rounds in costs.items():
        figures = [median(column) for column in zip(*rounds, strict=True)]
        print(f"{name:12}" + "".join(f"{figure:15.1f}" for figure in figures))
    checks = [
        Check(
            name=f"CPU time, {name} : {base}",
            rounds=[
                sum(cost[:2]) / sum(other[:2])
                for cost, other in zip(costs[name], costs[base], strict=True)
            ],
            direction="<=",
            limit=limit,
            goal=COLD_GOAL,
        )
        for (name, base), limit in MAX_COLD_RATIOS.items()
    ]
    finish("step_cycle_cold", checks)


def report(own: list[tuple[float, float]], peers: list[tuple[float, float]]) -> None:
    """Print the medians of the rounds; exit with code 1 if the ratio is below the limit."""
    waybook, peer = sorted(own)[len(own) // 2], sorted(peers)[len(peers) // 2]
    ratios = [ours[0] / theirs[0] for ours, theirs in zip(own, peers, strict=True)]
    print(f"{'step cycle, 16 concurrent':34}{'cycles/s':>10}{'Python µs/cycle':>18}")
    print(f"{'two SQL functions, same guarantees':34}{peer[0]:10.0f}{peer[1]:18.0f}")
    print(f"{'Waybook':34}{waybook[0]:10.0f}{waybook[1]:18.0f}")
    finish("step_cycle", [Check(name="ratio", rounds=ratios, limit=MIN_RATIO)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=3200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    measured = (
        compare_cold(arguments.cycles, arguments.rounds, arguments.steps)
        if arguments.cold
        else main(arguments.cycles, arguments.rounds)
    )
    uvloop.run(measured)
