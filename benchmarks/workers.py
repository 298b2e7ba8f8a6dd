"""Rate and CPU time of step cycles with one and with two server processes, over MCP and HTTP.

Three servers use one database and are measured alternately: a server with one worker, a server with
two workers, and two servers with one worker each, between which each agent alternates with every
call, as behind a load balancer. With two workers, a connection stays with the worker that accepted
it, so all calls on a plan reach the process that has the plan in its cache; with alternating calls,
every call reaches a process whose copy of the plan is out of date. Every call has a token. With two
processes, fewer concurrent calls of each share a message to PostgreSQL, so alternating calls are
also compared with two workers.

PostgreSQL and the callers share the cores of the machine with the servers, so the ratio of the
rates depends on the machine. The CPU time of the busiest process does not: its inverse is the rate
at which the servers are the limit if each process has a core of its own.

    python benchmarks/workers.py [--cycles 1600] [--rounds 3]
"""

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from flood import Caller, call, cpu_seconds, create_token
from limits import Check, finish
from mcp_http import INSTRUCTIONS, RESULT, STEPS
from server_cpu import find_postmaster, server_cpu_seconds
from server_process import serving
from waybook.bootstrap import database_server
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

CONNECTIONS: Final = 16
ORG: Final = "measured"
CORES: Final = os.cpu_count() or 1
SINGLE, DOUBLE, ALTERNATING = "1 worker", "2 workers", "2 servers, calls alternate"
#: Goals of the ratios of two workers to one: rate, and CPU time of the servers per cycle.
RATE_GOAL: Final = 1.7
CPU_GOAL: Final = 1.1
#: Limits of these ratios: two workers must not be slower, nor cost half as much again.
MIN_RATE: Final = 0.85
MAX_CPU: Final = 1.5
#: Limits and goal of the ratios of the CPU time per cycle with alternating calls to that of one
#: worker and to that of two workers, to which the calls on a plan stick.
MAX_ALTERNATING_CPU: Final = 1.6
MAX_ALTERNATING_POSTGRES_CPU: Final = 2.2
ALTERNATING_GOAL: Final = 1.3
MAX_ALTERNATING_TO_STICKY_CPU: Final = 1.6
STICKY_GOAL: Final = 1.1


class Target(NamedTuple):
    """Addresses that an agent calls in turn, and the processes of the servers."""

    addresses: Sequence[str]
    processes: Sequence[int]


class Measured(NamedTuple):
    """Cycles per second, and CPU milliseconds per cycle."""

    rate: float
    python: float
    #: CPU time of the server process that used most.
    busiest: float
    postgres: float
    callers: float

    def share(self, cpu_ms: float) -> float:
        """Return a CPU time per cycle as a share of the machine, in percent."""
        return cpu_ms * self.rate / 10 / CORES


class Usage(NamedTuple):
    """CPU seconds used so far by each server process, by PostgreSQL, and by the callers."""

    servers: Sequence[float]
    postgres: float
    callers: float


def worker_processes(server: int) -> list[int]:
    """Return the processes that serve: the children of a supervisor, or the process itself."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text("ascii").split()
    return [int(child) for child in children] or [server]


def read_usage(processes: Sequence[int], postmaster: int) -> Usage:
    """Return the CPU time that all processes have used so far."""
    servers = [cpu_seconds(process) for process in processes]
    return Usage(servers, server_cpu_seconds(postmaster), time.process_time())


class Agent:
    """Agent with a connection to each address, which it uses in turn."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        self._callers, self._calls = callers, 0

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool on the next connection, and return the reply."""
        self._calls += 1
        return await call(self._callers[self._calls % len(self._callers)], tool, **arguments)

    async def work(self, name: str, plans: int) -> None:
        """Create plans, then claim and submit all of their steps."""
        steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * STEPS
        for number in range(plans):
            arguments = {"name": "b", "researchQuestion": "How fast?", "steps": steps}
            plan = await self.call("create_research_plan", **arguments)
            for step_number in range(STEPS):
                common = {"sessionId": name, "idempotencyKey": f"{name}-{number}-{step_number}"}
                step = await self.call("get_next_step", planId=plan["planId"], **common)
                held = {"stepId": step["stepId"], "attempt": step["attempt"]}
                result = {"resultSummary": RESULT, "confidence": 0.8}
                await self.call("submit_step_result", **held, **result, **common)


async def measure(target: Target, postmaster: int, token: str, name: str, plans: int) -> Measured:
    """Let all agents work on plans of their own, and measure the processes."""
    async with AsyncExitStack() as stack:
        agents = []
        for _ in range(CONNECTIONS):
            callers = [Caller(address, token) for address in target.addresses]
            agents.append(Agent([await stack.enter_async_context(caller) for caller in callers]))
        before, started = read_usage(target.processes, postmaster), time.perf_counter()
        await asyncio.gather(*(agent.work(f"{name}-{n}", plans) for n, agent in enumerate(agents)))
        after, seconds = read_usage(target.processes, postmaster), time.perf_counter() - started
    cycles = CONNECTIONS * plans * STEPS
    per_cycle = 1000 / cycles
    servers = [b - a for a, b in zip(before.servers, after.servers, strict=True)]
    return Measured(
        rate=cycles / seconds,
        python=sum(servers) * per_cycle,
        busiest=max(servers) * per_cycle,
        postgres=(after.postgres - before.postgres) * per_cycle,
        callers=(after.callers - before.callers) * per_cycle,
    )


async def main(cycles: int, rounds: int) -> None:
    """Measure the servers alternately; the first round is a warm-up."""
    os.environ["WAYBOOK_CALLS_PER_SECOND"] = "0"  # Zero means that there is no rate limit.
    plans = max(1, cycles // (CONNECTIONS * STEPS))
    results: dict[str, list[Measured]] = {}
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with database_server(settings), AsyncExitStack() as stack:
            token, postmaster = await create_token(folder, ORG), find_postmaster(folder)

            async def start(workers: int) -> tuple[str, list[int]]:
                options = ("--auth", "required", "--workers", str(workers))
                address, server = await stack.enter_async_context(serving(folder, *options))
                return address, worker_processes(server)

            (address, first), (shared, pair), (other, second) = [await start(n) for n in (1, 2, 1)]
            targets = {
                SINGLE: Target([address], first),
                DOUBLE: Target([shared], pair),
                ALTERNATING: Target([address, other], [*first, *second]),
            }
            for turn in range(rounds + 1):
                for name, target in targets.items():
                    sessions = f"{name} {turn}"
                    measured = await measure(target, postmaster, token, sessions, plans)
                    if turn:
                        results.setdefault(name, []).append(measured)
    report(results)


def report(results: dict[str, list[Measured]]) -> None:
    """Print the medians; exit with code 1 if a limit is missed."""
    columns = ("rate", "python", "busiest", "postgres", "callers")
    print(f"{'CPU ms per cycle, % of machine':32}{'cycles/s':>9}", end="")
    print("".join(f"{column:>16}" for column in ("servers", "busiest", "PostgreSQL", "callers")))
    rows: dict[str, dict[str, float]] = {}
    for name, all_ in results.items():
        typical = Measured(
            *(median(getattr(measured, key) for measured in all_) for key in columns)
        )
        rows[name] = typical._asdict()
        figures = [f"{ms:.2f} ({typical.share(ms):.0f} %)" for ms in typical[1:]]
        print(f"{name:32}{typical.rate:9.0f}{''.join(f'{figure:>16}' for figure in figures)}")
    finish("workers", compare(results), rows=rows, cores=CORES, connections=CONNECTIONS)


def compare(results: dict[str, list[Measured]]) -> list[Check]:
    """Return the ratios of two processes to one, within each round."""
    turns = list(zip(results[SINGLE], results[DOUBLE], results[ALTERNATING], strict=True))
    return [
        Check(
            name="rate, 2 workers : 1 worker",
            rounds=[two.rate / single.rate for single, two, _ in turns],
            limit=MIN_RATE,
            goal=RATE_GOAL,
        ),
        Check(
            name="rate with a core for each process, 2 workers : 1 worker",
            rounds=[single.busiest / two.busiest for single, two, _ in turns],
            goal=RATE_GOAL,
        ),
        Check(
            name="server CPU per cycle, 2 workers : 1 worker",
            rounds=[two.python / single.python for single, two, _ in turns],
            direction="<=",
            limit=MAX_CPU,
            goal=CPU_GOAL,
        ),
        Check(
            name="server CPU per cycle, calls alternate : 1 worker",
            rounds=[alternating.python / single.python for single, _, alternating in turns],
            direction="<=",
            limit=MAX_ALTERNATING_CPU,
            goal=ALTERNATING_GOAL,
        ),
        Check(
            name="PostgreSQL CPU per cycle, calls alternate : 1 worker",
            rounds=[alternating.postgres / single.postgres for single, _, alternating in turns],
            direction="<=",
            limit=MAX_ALTERNATING_POSTGRES_CPU,
            goal=ALTERNATING_GOAL,
        ),
        Check(
            name="CPU per cycle of servers and PostgreSQL, calls alternate : 2 workers",
            rounds=[
                (alternating.python + alternating.postgres) / (two.python + two.postgres)
                for _, two, alternating in turns
            ],
            direction="<=",
            limit=MAX_ALTERNATING_TO_STICKY_CPU,
            goal=STICKY_GOAL,
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.cycles, arguments.rounds))
