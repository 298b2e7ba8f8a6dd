"""Rate and CPU time of claiming and submitting steps with one and with two server processes.

Agents call the servers over MCP and HTTP. Three set-ups use one database and are measured in turn:
a server with one worker, a server with two workers, and two servers with one worker each. In the
last, each agent alternates between the servers with every call, as behind a load balancer. With two
workers, a connection stays with the worker that accepted it, so all calls on a plan reach the
process that has the plan in its cache. With alternating calls, every call reaches a process whose
copy of the plan is out of date. Every call has a token. Concurrent calls of one process share
messages to PostgreSQL. Each of two processes has fewer concurrent calls and therefore sends more
messages per call, so alternating calls are also compared with two workers.

PostgreSQL and the callers share the cores of the machine with the servers, so the ratio of the
rates depends on the machine. The CPU time of the busiest process does not: its inverse is the
maximum rate if each process has a core of its own. On two cores, the ratio of the rates shows the
effect of a second worker only if PostgreSQL and the callers need little CPU time. Therefore, one
and two workers are also measured with two requests that the servers answer mostly on their own: the
progress of a plan of 200 steps, and the report of a snapshot of 200 steps and 2,000 jobs.

    python benchmarks/workers.py [--cycles 1920] [--rounds 3] [--reads 600]
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from statistics import median
from typing import Any, Final, TypeAlias

from flood import Caller, call, create_token
from limits import Check, finish
from mcp_http import INSTRUCTIONS, RESULT, STEPS
from server_cpu import find_postmaster
from server_process import serving
from waybook.application import database_server
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings
from worker_reads import CONNECTIONS, PROGRESS, REPORT, measure_reads, prepare_requests
from worker_usage import (
    CORES,
    Measured,
    Target,
    read_usage,
    usage_per_cycle,
    worker_processes,
)

ORG: Final = "measured"
SINGLE, DOUBLE, ALTERNATING = "1 worker", "2 workers", "2 servers, calls alternate"
#: Goals for two workers as a multiple of one: rate, and CPU time of the servers to claim and submit
#: a step.
RATE_GOAL: Final = 1.7
CPU_GOAL: Final = 1.1
#: Limits for two workers as a multiple of one: minimum rate of cycles and of reads if each process
#: had a core, and maximum CPU time of the servers.
MIN_RATE: Final = 1.5
MIN_READ_RATE: Final = 1.6
MAX_CPU: Final = 1.25
#: Maximum CPU time if calls alternate between two servers, as a multiple of that with one worker:
#: for the servers, for PostgreSQL, and the goal for both.
MAX_ALTERNATING_CPU: Final = 1.6
MAX_ALTERNATING_POSTGRES_CPU: Final = 1.8
ALTERNATING_GOAL: Final = 1.3
#: Maximum CPU time if calls alternate between two servers, as a multiple of that with two workers
#: of one server, and the goal for it.
MAX_ALTERNATING_TO_STICKY_CPU: Final = 1.45
STICKY_GOAL: Final = 1.1

#: Results of all rounds, by set-up for steps, and by the name that `row_name` returns for reads.
Results: TypeAlias = dict[str, list[Measured]]


class Agent:
    """Agent with a connection to each address, which it calls in turn."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        self._callers, self._calls = callers, 0

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
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
    """Let each agent work on its own plans, and measure the processes."""
    async with AsyncExitStack() as stack:
        agents = []
        for _ in range(CONNECTIONS):
            callers = [Caller(address, token) for address in target.addresses]
            agents.append(Agent([await stack.enter_async_context(caller) for caller in callers]))
            # Each caller first makes one call, because a server refuses many calls at the same time
            # with a token that it has not checked yet.
            for caller in callers:
                await call(caller, "ping")
        before = read_usage(target.processes, postmaster)
        await asyncio.gather(*(agent.work(f"{name}-{n}", plans) for n, agent in enumerate(agents)))
        after = read_usage(target.processes, postmaster)
    return usage_per_cycle(before, after, CONNECTIONS * plans * STEPS)


async def main(cycles: int, rounds: int, reads: int) -> None:
    """Measure the servers in turn; do not count the first round."""
    os.environ["WAYBOOK_CALLS_PER_SECOND"] = "0"  # 0 turns the rate limit off.
    plans = max(1, cycles // (CONNECTIONS * STEPS))
    results: Results = {}
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with database_server(settings), AsyncExitStack() as stack:
            token, postmaster = await create_token(folder, ORG), find_postmaster(folder)

            async def start(workers: int) -> tuple[str, list[int]]:
                options = ("--auth", "required", "--tools", "all", "--workers", str(workers))
                address, server = await stack.enter_async_context(serving(folder, *options))
                return address, worker_processes(server)

            (address, first), (shared, pair), (other, second) = [await start(n) for n in (1, 2, 1)]
            targets = {
                SINGLE: Target([address], first),
                DOUBLE: Target([shared], pair),
                ALTERNATING: Target([address, other], [*first, *second]),
            }
            requests = await prepare_requests(address, token)
            for turn in range(rounds + 1):
                measurements = results if turn else {}
                for name, target in targets.items():
                    sessions = f"{name} {turn}"
                    measured = await measure(target, postmaster, token, sessions, plans)
                    measurements.setdefault(name, []).append(measured)
                for load, request in requests.items():
                    for name in (SINGLE, DOUBLE):
                        measured = measure_reads(targets[name], postmaster, request, reads)
                        measurements.setdefault(row_name(load, name), []).append(measured)
    report(results)


def row_name(load: str, servers: str) -> str:
    """Return the key of `Results` for this load and these servers."""
    return f"{load}, {servers}"


def report(results: Results) -> None:
    """Print the medians; exit with code 1 if a limit is missed."""
    columns = ("rate", "python", "busiest", "postgres", "callers")
    print(f"{'CPU ms each, % of machine':40}{'rate/s':>9}", end="")
    print("".join(f"{column:>16}" for column in ("servers", "busiest", "PostgreSQL", "callers")))
    rows: dict[str, dict[str, float]] = {}
    for name, all_ in results.items():
        typical = Measured(
            *(median(getattr(measured, key) for measured in all_) for key in columns)
        )
        rows[name] = typical._asdict()
        figures = [f"{ms:.2f} ({typical.share(ms):.0f} %)" for ms in typical[1:]]
        print(f"{name:40}{typical.rate:9.0f}{''.join(f'{figure:>16}' for figure in figures)}")
    finish("workers", compare(results), rows=rows, cores=CORES, connections=CONNECTIONS)


def compare(results: Results) -> list[Check]:
    progress, report = (compare_reads(results, load) for load in (PROGRESS, REPORT))
    return [*compare_cycles(results), *progress, *report]


def compare_reads(results: Results, load: str) -> list[Check]:
    """Return checks of the rate of these requests with two workers.

    The real rate also depends on the CPU time that callers and PostgreSQL take on the same cores.
    """
    names = row_name(load, SINGLE), row_name(load, DOUBLE)
    turns = list(zip(*(results[name] for name in names), strict=True))
    return [
        Check(
            name=f"rate of {load}, 2 workers : 1 worker",
            rounds=[two.rate / single.rate for single, two in turns],
            goal=RATE_GOAL,
        ),
        Check(
            name=f"rate of {load} with a core for each process",
            rounds=[single.busiest / two.busiest for single, two in turns],
            limit=MIN_READ_RATE,
            goal=RATE_GOAL,
        ),
    ]


def compare_cycles(results: Results) -> list[Check]:
    """Return checks of claims and submits with two server processes, compared with one process."""
    turns = list(zip(results[SINGLE], results[DOUBLE], results[ALTERNATING], strict=True))
    return [
        Check(
            name="rate, 2 workers : 1 worker",
            rounds=[two.rate / single.rate for single, two, _ in turns],
            goal=RATE_GOAL,
        ),
        Check(
            name="rate with a core for each process, 2 workers : 1 worker",
            rounds=[single.busiest / two.busiest for single, two, _ in turns],
            limit=MIN_RATE,
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
    parser.add_argument("--cycles", type=int, default=1920)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=600)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.cycles, arguments.rounds, arguments.reads))
