"""Simulated agents that work on a small fleet, to check the capacity model.

Each agent has a connection of its own to HAProxy. It creates a plan, claims a step, thinks, submits
the result, and continues with the next step. Some steps are abandoned, and some agents are joined
by a second agent that waits until the plan has work or ends. Thinking times have a lognormal
distribution; `--speedup` divides them. All processes run on this machine and use loopback only. The
run prints calls and their latency, the CPU time of servers and database with the prediction of the
model, the growth of the database, and failed attempts; it fails if a prediction is wrong by more
than the tolerance, or if a call was lost.

    PYTHONPATH=tests:tests/support python -m tools.capacity.simulate [--agents 1000]
        [--think-seconds 30] [--speedup 1] [--seconds 30] [--servers 2] [--balancing sticky]
"""

import argparse
import asyncio
import contextlib
import math
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple, get_args

from faults.cluster import SOURCE
from faults.wire import Address, Wire
from fleet.load import BALANCER, Load, Phase
from fleet.run import make_token, say
from fleet.servers import HOST, Fleet, Variant, running_fleet
from tools.capacity.model import Balancing, Size, predict, read_costs

#: Bounds of the options.
MAX_AGENTS: Final = 5_000
#: Maximum number of connections to HAProxy, which needs two file descriptors for each.
MAX_CONNECTIONS: Final = 8_000
MAX_SECONDS: Final = 300.0
MAX_SERVERS: Final = 8
STEPS: Final = 10
#: Standard deviation of the logarithm of a thinking time.
SIGMA: Final = 0.8
#: Shares of steps that are abandoned, and of plans on which a second agent waits.
ABANDONED: Final = 0.02
WAITING: Final = 0.1
WAIT_SECONDS: Final = 10
#: Maximum relative error of the predicted CPU time.
TOLERANCE: Final = 0.4
INSTRUCTIONS: Final = "Read the three newest sources and note where they disagree. " * 4
RESULT: Final = '{"findings": "Three sources agree; one is older.", "sources": [1, 2, 3]}'
#: Maximum time in seconds in which all agents start.
MAX_RAMP_SECONDS: Final = 60.0
#: Time in seconds between the start of the last agent and the measurement, in which the servers
#: prepare their statements.
WARM_UP_SECONDS: Final = 8.0
#: Options of HAProxy: health checks may take long on a busy machine; with sticky calls, the calls
#: of a connection are sent to the server of the previous call.
CHECK_OPTION: Final = "timeout check 5s"
STICKY_OPTION: Final = "option prefer-last-server"
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a simulation."""

    agents: int
    think_seconds: float
    speedup: float
    seconds: float
    servers: int
    balancing: Balancing

    @property
    def mean_think_seconds(self) -> float:
        """Return the mean thinking time in the simulation."""
        return self.think_seconds / self.speedup


class Usage(NamedTuple):
    """CPU seconds used so far by the servers and by PostgreSQL, and bytes of the database."""

    servers: float
    database: float
    bytes: int


class Simulation:
    """Agents with thinking times."""

    def __init__(self, options: Options, address: Address, token: str) -> None:
        self.options = options
        self.steps, self.abandoned = 0, 0
        self.calls = Load(address, token, "simulated")
        self.waits = Load(address, token, "waiting")
        self._address, self._token = address, token
        self._random = random.SystemRandom()

    async def run_agent(self, number: int, delay: float) -> None:
        """Work through plans until the task is canceled."""
        await asyncio.sleep(delay)
        async with self._wire() as wire:
            for plan in range(sys.maxsize):
                await self._work_through(wire, f"agent-{number}-{plan}")

    async def _work_through(self, wire: Wire, session: str) -> None:
        steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * STEPS
        arguments = {"name": session, "researchQuestion": "Does it scale?", "steps": steps}
        plan = await self.calls.call(wire, "create_research_plan", arguments)
        for number in range(STEPS):
            named = {"planId": plan["planId"], "sessionId": session}
            step = await self.calls.call(wire, "get_next_step", named)
            if self._random.random() < ABANDONED:
                self.abandoned += 1
                return
            last = number == STEPS - 1
            joined = last and self._random.random() < WAITING
            async with self._joined(named) if joined else contextlib.nullcontext():
                await self._think()
                held = {"stepId": step["stepId"], "attempt": step["attempt"], "sessionId": session}
                result = {"resultSummary": RESULT, "confidence": 0.8}
                await self.calls.call(wire, "submit_step_result", {**held, **result})
            self.steps += 1

    @asynccontextmanager
    async def _joined(self, named: dict[str, object]) -> AsyncIterator[None]:
        """Let a second agent wait for work on the plan while the last step is in progress."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait(named))
            yield

    async def _wait(self, named: dict[str, object]) -> None:
        arguments = {**named, "sessionId": "second", "waitSeconds": WAIT_SECONDS}
        async with self._wire() as wire:
            await self.waits.call(wire, "get_next_step", arguments)

    async def _think(self) -> None:
        mean = self.options.mean_think_seconds
        await asyncio.sleep(self._random.lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA))

    @asynccontextmanager
    async def _wire(self) -> AsyncIterator[Wire]:
        wire = Wire({BALANCER: self._address}, self._token)
        try:
            yield wire
        finally:
            wire.close()


def tree_cpu_seconds(root: int | None) -> float:
    """Return the CPU time of a process and of its children, including those that have ended."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = process.read_text().rsplit(")", 1)[1].split()
        except OSError:  # The process has ended.
            continue
        if int(process.parent.name) == root:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == root:
            ticks += sum(map(int, fields[11:13]))
    return ticks / TICKS_PER_SECOND


async def read_usage(fleet: Fleet) -> Usage:
    """Return the CPU time and the size of the database so far."""
    servers = sum(tree_cpu_seconds(server.pid) for server in fleet.servers.values())
    ((size,),) = await fleet.sql("select pg_database_size(current_database())")
    return Usage(servers, tree_cpu_seconds(fleet.postgres.pid), int(size))


async def simulate(fleet: Fleet, options: Options) -> int:
    """Start the servers, let the agents work, print the figures; return the exit status."""
    token = await make_token(fleet)
    for name in fleet.names:
        fleet.start_server(name, SOURCE)
    for name in fleet.names:
        await fleet.await_ready(name)
    address = Address(fleet.ports[BALANCER], f"{HOST}:{fleet.ports[BALANCER]}")
    simulation = Simulation(options, address, token)
    # The agents start one after the other, so that they do not create their plans together.
    ramp = min(options.mean_think_seconds, MAX_RAMP_SECONDS)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(simulation.run_agent(n, ramp * n / options.agents))
            for n in range(options.agents)
        ]
        await asyncio.sleep(ramp + WARM_UP_SECONDS)
        phase, steps = simulation.calls.begin("measured"), simulation.steps
        before, started = await read_usage(fleet), time.monotonic()
        await asyncio.sleep(options.seconds)
        after, seconds = await read_usage(fleet), time.monotonic() - started
        done = simulation.steps - steps
        for task in tasks:
            task.cancel()
    report_calls(simulation, phase, seconds)
    growth = (after.bytes - before.bytes) / max(done, 1)
    say(f"{'disk bytes per step':24}{growth:10,.0f}")
    costs = read_costs(options.balancing)
    say(f"{'cores in use':24}{'measured':>10}{'predicted':>11}{'error':>8}   ({costs.source})")
    used = (after.servers - before.servers, after.database - before.database)
    measured = [seconds_used / seconds for seconds_used in used]
    is_right = compare(measured, predict(done / seconds, costs))
    return int(not is_right or bool(phase.lost))


def report_calls(simulation: Simulation, phase: Phase, seconds: float) -> None:
    """Print the number of calls, their latency, and their failed attempts."""
    options, ms = simulation.options, [1000 * value for value in phase.seconds]
    p50, p95, p99 = (quantiles(ms, n=100)[n - 1] for n in (50, 95, 99))
    say(
        f"{options.agents} agents, {options.servers} servers, {options.balancing} calls, thinking "
        f"{options.think_seconds:g} s at {options.speedup:g} times the speed, {seconds:.0f} s"
    )
    say(f"{'calls per second':24}{len(ms) / seconds:10.1f}")
    say(f"{'latency ms':24}{p50:10.0f} (p50){p95:8.0f} (p95){p99:8.0f} (p99)")
    say(f"{'waiting calls':24}{len(simulation.waits.phase.seconds):10}")
    say(f"{'abandoned steps':24}{simulation.abandoned:10}")
    failed = ", ".join(f"{count} {cause}" for cause, count in phase.failed_attempts.items())
    say(f"{'failed attempts':24}{sum(phase.failed_attempts.values()):10}   {failed}".rstrip())
    say(f"{'calls lost':24}{phase.lost:10}")


def compare(measured: Sequence[float], size: Size) -> bool:
    """Print the cores in use; return whether all predictions are within the tolerance."""
    is_right = True
    predicted = {"servers": size.server_load, "PostgreSQL": size.database_load}
    for (name, expected), cores in zip(predicted.items(), measured, strict=True):
        error = expected / cores - 1
        verdict = "" if abs(error) <= TOLERANCE else f"   more than {TOLERANCE:.0%}"
        say(f"  {name:22}{cores:10.2f}{expected:11.2f}{error:+8.0%}{verdict}")
        is_right = is_right and not verdict
    return is_right


async def main(options: Options) -> int:
    """Run a simulation on a new fleet; return the exit status."""
    variant = Variant(
        environment={"WAYBOOK_STALL_SECONDS": "60", "WAYBOOK_SWEEP_SECONDS": "15"},
        balancer_connections=MAX_CONNECTIONS,
        backend_options=[CHECK_OPTION, *[STICKY_OPTION] * (options.balancing == "sticky")],
        is_pooled=False,
    )
    async with running_fleet(options.servers, 1, variant) as fleet:
        return await simulate(fleet, options)


def read_options() -> Options:
    """Return the options of the command line; end with an error if one is out of bounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--think-seconds", type=float, default=30.0)
    parser.add_argument("--speedup", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--balancing", choices=get_args(Balancing), default="sticky")
    options = Options(**vars(parser.parse_args()))
    for name, value, most in (
        ("agents", options.agents, MAX_AGENTS),
        ("seconds", options.seconds, MAX_SECONDS),
        ("servers", options.servers, MAX_SERVERS),
    ):
        if not 1 <= value <= most:
            parser.error(f"{name} is {value:g}: use 1 to {most:g}")
    if options.think_seconds <= 0 or options.speedup <= 0:
        parser.error("think-seconds and speedup must be positive")
    return options


if __name__ == "__main__":
    sys.exit(asyncio.run(main(read_options())))
