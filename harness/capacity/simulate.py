"""Check of the capacity model with simulated agents on a small fleet of servers.

Each agent has its own connection to HAProxy. It creates a plan, claims a step, pauses, submits the
result, and continues with the next step. Some steps are abandoned, and on some plans a second agent
waits until there is work or the plan ends. Pauses have a lognormal distribution. All processes run
on this machine.

The CPU time of the fleet is measured twice with the same agents, the second time with shorter
pauses. These two measurements give the costs of the model: the CPU time of a call, and a part that
does not increase with the rate of calls. From these costs, the model predicts the CPU time for more
agents and other pauses, and each prediction is compared with a measurement. The costs are measured
before and after these loads, because other programs on the machine change them. The check fails if
a prediction is wrong by more than the tolerance, if a call was lost, or if a server logged an
unexpected error. The costs are written to `build/bench/capacity.json`, which the model reads.

    PYTHONPATH=harness:tests:tests/support python -m capacity.simulate [--agents 100]\
        [--think-seconds 8] [--seconds 20] [--servers 2] [--balancing sticky]
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple, get_args

from capacity.agents import Simulation, Workload
from capacity.model import CALLS_PER_STEP, RESULTS, Balancing, Costs, predict
from faults.cluster import SOURCE
from faults.wire import Address
from fleet.load import BALANCER, Phase
from fleet.run import make_token, say
from fleet.servers import HOST, Fleet, Variant, running_fleet

#: Maximum value of `--agents`; the largest load has four times as many agents.
MAX_AGENTS: Final = 1_250
#: Maximum number of connections to HAProxy, which needs two file descriptors for each.
MAX_CONNECTIONS: Final = 8_000
MAX_SECONDS: Final = 300.0
MAX_SERVERS: Final = 8
#: Maximum relative error of the predicted CPU time of a call.
TOLERANCE: Final = 0.25
#: Pauses in the two measurements for the calibration, as multiples of the option `--think-seconds`.
CALIBRATIONS: Final = (1.0, 0.25)
#: Loads to predict, as multiples of the options `--agents` and `--think-seconds`.
LOADS: Final = ((4, 1.0), (4, 2.0), (2, 0.75))
#: Duration of the measurement of a fleet without calls.
IDLE_SECONDS: Final = 15.0
#: Maximum time from the start of the first agent to that of the last.
MAX_RAMP_SECONDS: Final = 60.0
#: Time from the start of the last agent to the measurement, in which servers prepare statements.
WARM_UP_SECONDS: Final = 8.0
#: HAProxy option that sends all calls of a connection to the same server.
STICKY_OPTION: Final = "option prefer-last-server"
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    agents: int
    think_seconds: float
    seconds: float
    servers: int
    balancing: Balancing


class Usage(NamedTuple):
    """CPU seconds that the servers and PostgreSQL have used so far, and size of the database."""

    servers: float
    database: float
    bytes: int


class Measured(NamedTuple):
    """Measured number of calls, and CPU seconds of the servers and PostgreSQL."""

    calls: int
    seconds: float
    servers: float
    database: float
    bytes_per_call: float
    is_lost: bool = False

    def milliseconds_per_call(self) -> tuple[float, float]:
        """Return the CPU milliseconds per call in the servers, and in PostgreSQL."""
        return 1000 * self.servers / self.calls, 1000 * self.database / self.calls


def combine(measured: Sequence[Measured]) -> Measured:
    """Combine several measurements of one workload."""
    calls = sum(part.calls for part in measured)
    return Measured(
        calls=calls,
        seconds=sum(part.seconds for part in measured),
        servers=sum(part.servers for part in measured),
        database=sum(part.database for part in measured),
        bytes_per_call=sum(part.calls * part.bytes_per_call for part in measured) / calls,
        is_lost=any(part.is_lost for part in measured),
    )


def tree_cpu_seconds(root: int | None) -> float:
    """Return the CPU time of a process and its children, even of children that have ended."""
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
    servers = sum(tree_cpu_seconds(server.pid) for server in fleet.servers.values())
    ((size,),) = await fleet.sql("select pg_database_size(current_database())")
    return Usage(servers, tree_cpu_seconds(fleet.postgres.pid), int(size))


async def measure(
    fleet: Fleet, token: str, workload: Workload, seconds: float
) -> tuple[Measured, Phase]:
    """Let agents work, and measure the fleet after a warm-up; also return the counts of calls."""
    address = Address(fleet.ports[BALANCER], f"{HOST}:{fleet.ports[BALANCER]}")
    simulation = Simulation(workload, address, token)
    # The agents start one after the other, so that they do not create their plans at the same time.
    ramp = min(workload.think_seconds, MAX_RAMP_SECONDS)
    async with asyncio.TaskGroup() as group:
        for number in range(workload.agents):
            group.create_task(simulation.run_agent(number, ramp * number / workload.agents))
        await asyncio.sleep(ramp + WARM_UP_SECONDS)
        phases = simulation.calls.begin("measured"), simulation.waits.begin("measured")
        before, started = await read_usage(fleet), time.monotonic()
        await asyncio.sleep(seconds)
        after, passed = await read_usage(fleet), time.monotonic() - started
        calls = sum(phase.calls for phase in phases)
        simulation.calls.begin("ended")
        simulation.stop()
    measured = Measured(
        calls=calls,
        seconds=passed,
        servers=after.servers - before.servers,
        database=after.database - before.database,
        bytes_per_call=(after.bytes - before.bytes) / calls,
        is_lost=any(phase.lost for phase in phases),
    )
    return measured, phases[0]


async def measure_idle(fleet: Fleet) -> tuple[float, float]:
    """Return the cores that a server uses without calls, and those that PostgreSQL uses."""
    before, started = await read_usage(fleet), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    after, seconds = await read_usage(fleet), time.monotonic() - started
    servers = (after.servers - before.servers) / seconds / len(fleet.names)
    return servers, (after.database - before.database) / seconds


def fit(slow: Measured, fast: Measured, servers: int) -> Costs:
    """Compute the costs of claiming and submitting a step from measurements at two rates of calls.

    The CPU time per second is the sum of a fixed part and a part in proportion to the rate.
    """
    fixed_servers, server_ms = _line(slow, fast, slow.servers, fast.servers)
    fixed_database, database_ms = _line(slow, fast, slow.database, fast.database)
    return Costs(
        server_ms=server_ms * CALLS_PER_STEP,
        database_ms=database_ms * CALLS_PER_STEP,
        fixed_server=fixed_servers / servers,
        fixed_database=fixed_database,
        source="calibration",
    )


def _line(slow: Measured, fast: Measured, slow_cpu: float, fast_cpu: float) -> tuple[float, float]:
    """Return the cores in use without calls, and the CPU milliseconds per call."""
    cores = slow_cpu / slow.seconds, fast_cpu / fast.seconds
    rates = slow.calls / slow.seconds, fast.calls / fast.seconds
    per_call = (cores[1] - cores[0]) / (rates[1] - rates[0])
    return max(cores[0] - per_call * rates[0], 0.0), 1000 * per_call


async def simulate(fleet: Fleet, options: Options) -> int:
    """Start the servers, calibrate the model, check its predictions; return the exit status."""
    token = await make_token(fleet)
    for name in fleet.names:
        fleet.start_server(name, SOURCE)
    for name in fleet.names:
        await fleet.await_ready(name)
    base = Workload(options.agents, options.think_seconds)
    say(
        f"{options.servers} servers, {options.balancing} calls; "
        "CPU milliseconds per call: measured, predicted"
    )
    # Warm-up without a measurement, in which the servers prepare their SQL statements.
    await measure(fleet, token, base, WARM_UP_SECONDS)
    idle = await measure_idle(fleet)
    slow, fast = (Workload(base.agents, pace * base.think_seconds) for pace in CALIBRATIONS)
    results = list[tuple[Workload, Measured, Phase]]()
    others = [Workload(base.agents * n, base.think_seconds * pace) for n, pace in LOADS]
    for load in (slow, fast, *others, slow, fast):
        say(f"measuring {load.agents:,} agents that think for {load.think_seconds:g} seconds")
        results.append((load, *await measure(fleet, token, load, options.seconds)))
    calibrated = {
        load: combine([measured for other, measured, _ in results if other == load])
        for load in (slow, fast)
    }
    costs = fit(calibrated[slow], calibrated[fast], options.servers)
    say(
        f"{'agents':>7}{'think s':>9}{'calls/s':>9}{'p50 ms':>8}{'p99 ms':>8}{'B/call':>8}"
        f"{'servers':>16}{'error':>7}{'PostgreSQL':>16}{'error':>7}  failed attempts"
    )
    outcomes = [report(*result, costs, options.servers) for result in results]
    say(f"idle: {idle[0]:.4f} cores of each server, {idle[1]:.4f} cores of PostgreSQL")
    say(
        f"in operation: {costs.fixed_server:.4f} cores of each server and "
        f"{costs.fixed_database:.4f} cores of PostgreSQL, and for each step "
        f"{costs.server_ms:.2f} ms of the servers and {costs.database_ms:.2f} ms of PostgreSQL"
    )
    write_costs(options.balancing, costs)
    errors = await asyncio.to_thread(fleet.logged_errors)
    say("\n".join(errors) if errors else "no unexpected error in the logs of the servers")
    return int(not all(outcomes) or bool(errors))


def report(load: Workload, measured: Measured, phase: Phase, costs: Costs, servers: int) -> bool:
    """Print a line of the table; return whether the prediction is right and no call was lost."""
    ms = [1000 * value for value in phase.seconds]
    p50, p99 = (quantiles(ms, n=100)[n - 1] for n in (50, 99))
    rate = measured.calls / measured.seconds
    size = predict(rate / CALLS_PER_STEP, costs, servers)
    predicted = 1000 * size.server_load / rate, 1000 * size.database_load / rate
    line = f"{load.agents:7,}{load.think_seconds:9.1f}{rate:9.1f}{p50:8.0f}{p99:8.0f}"
    line += f"{measured.bytes_per_call:8,.0f}"
    is_right = not measured.is_lost
    for expected, real in zip(predicted, measured.milliseconds_per_call(), strict=True):
        error = expected / real - 1
        is_right &= abs(error) <= TOLERANCE
        line += f"{real:9.2f}{expected:7.2f}{error:+7.0%}"
    failed = ", ".join(f"{count} {cause}" for cause, count in phase.failed_attempts.items())
    say(f"{line}  {failed or 'none'}{'' if is_right else '  WRONG'}")
    return is_right


def write_costs(balancing: Balancing, costs: Costs) -> None:
    """Write the costs for the model; keep those of the other kind of load balancing."""
    stored = json.loads(RESULTS.read_text("utf-8"))["costs"] if RESULTS.exists() else {}
    stored[balancing] = {
        **asdict(costs),
        "source": f"{RESULTS.name} of {time.strftime('%Y-%m-%d')}",
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({"costs": stored}, indent=1) + "\n", "utf-8")


async def main(options: Options) -> int:
    variant = Variant(
        environment={"WAYBOOK_STALL_SECONDS": "60"},
        balancer_connections=MAX_CONNECTIONS,
        backend_options=[STICKY_OPTION] * (options.balancing == "sticky"),
        is_pooled=False,
    )
    async with running_fleet(options.servers, 1, variant) as fleet:
        return await simulate(fleet, options)


def read_options() -> Options:
    """Read the command line; exit with an error if an option is out of bounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--think-seconds", type=float, default=8.0)
    parser.add_argument("--seconds", type=float, default=20.0)
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
    if options.think_seconds <= 0:
        parser.error("think-seconds must be positive")
    return options


if __name__ == "__main__":
    sys.exit(asyncio.run(main(read_options())))
