"""Capacity model: the cores, connections and disk that a fleet of servers needs.

The input is the number of agents and their steps per minute. The model multiplies the rate of step
cycles by the cost of a cycle, and adds a fixed part. A step cycle is the claim of a step, the
submit of its result, and a tenth of the creation of a ten-step plan. The fixed part is CPU time
that does not increase with the rate of calls: processes have to wake up, so a call after a pause
needs more time. The simulator measures both costs, and writes them to `build/bench/capacity.json`.
Without this file, the constants below are used.

    python harness/capacity/model.py [--agents 1000] [--steps-per-minute 2] [--balancing sticky]
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

RESULTS: Final = Path(__file__).resolve().parents[2] / "build" / "bench" / "capacity.json"

#: Load balancing: `sticky` sends all calls of an agent to one process, and `alternating` sends each
#: call to the next process.
Balancing = Literal["sticky", "alternating"]

#: Bytes that the claim and the submit of one step add to the database and to the write-ahead log,
#: with results of 100 bytes and instructions of 240 bytes. This includes the full pages that
#: PostgreSQL writes to the log after a checkpoint.
DISK_BYTES: Final = 2_400
LOG_BYTES: Final = 4_400
#: Share of a core that a process should use on average, so that the rest is free for peaks.
UTILIZATION: Final = 0.6
#: Database connections in the pool of a worker process (`pool_size`). Each worker has one more for
#: notifications, and the worker that does the background work of a fleet has another one.
POOL_SIZE: Final = 10
#: Calls per step: the claim, the submit, and a tenth of the creation of a plan of ten steps.
CALLS_PER_STEP: Final = 2.1
SECONDS_PER_DAY: Final = 86_400
#: Rows of the table of sizes, as number of agents and steps per minute of each agent.
SIZES: Final = ((10, 2.0), (100, 2.0), (1_000, 1.0), (1_000, 4.0), (5_000, 1.0), (10_000, 2.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """CPU milliseconds to claim and submit one step, and where they were measured."""

    server_ms: float
    database_ms: float
    #: Cores that each server uses without calls, and cores that PostgreSQL uses without calls.
    fixed_server: float = 0.0
    fixed_database: float = 0.0
    source: str


#: Costs that the simulator measured with 100 to 400 agents, on two servers and two ARM cores
#: (Neoverse N1) without other work. For `alternating`, the costs are 1.25 times as high, as
#: `benchmarks/workers.py` measured.
DEFAULT_COSTS: Final[dict[Balancing, Costs]] = {
    "sticky": Costs(
        server_ms=6.3,
        database_ms=3.4,
        fixed_server=0.016,
        fixed_database=0.032,
        source="constants of the model",
    ),
    "alternating": Costs(
        server_ms=7.9,
        database_ms=4.3,
        fixed_server=0.016,
        fixed_database=0.032,
        source="constants of the model",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Resources that a fleet needs for a load."""

    steps_per_second: float
    #: Cores that the servers use, and cores that PostgreSQL uses.
    server_load: float
    database_load: float

    @property
    def calls_per_second(self) -> float:
        return self.steps_per_second * CALLS_PER_STEP

    @property
    def workers(self) -> int:
        """Return the number of worker processes, each of which uses at most one core."""
        return max(1, math.ceil(self.server_load / UTILIZATION))

    @property
    def database_cores(self) -> int:
        return max(1, math.ceil(self.database_load / UTILIZATION))

    @property
    def connections(self) -> int:
        return self.workers * (POOL_SIZE + 1) + 1

    @property
    def disk_gigabytes_per_day(self) -> float:
        return self.steps_per_second * SECONDS_PER_DAY * DISK_BYTES / 1e9

    @property
    def log_gigabytes_per_day(self) -> float:
        """Return the growth of the write-ahead log in gigabytes per day."""
        return self.steps_per_second * SECONDS_PER_DAY * LOG_BYTES / 1e9


def read_costs(balancing: Balancing, results: Path = RESULTS) -> Costs:
    """Return the measured costs of a step, or the default costs if no file has measured ones."""
    stored = json.loads(results.read_text("utf-8"))["costs"] if results.exists() else {}
    return Costs(**stored[balancing]) if balancing in stored else DEFAULT_COSTS[balancing]


def predict(steps_per_second: float, costs: Costs, servers: int = 1) -> Size:
    """Return the resources that this many servers need for this number of steps per second."""
    return Size(
        steps_per_second=steps_per_second,
        server_load=costs.fixed_server * servers + steps_per_second * costs.server_ms / 1000,
        database_load=costs.fixed_database + steps_per_second * costs.database_ms / 1000,
    )


def size_for_agents(agents: int, steps_per_minute: float, costs: Costs) -> Size:
    return predict(agents * steps_per_minute / 60, costs)


def format_sizes(sizes: Sequence[tuple[int, float]], costs: Costs) -> str:
    """Return the table of sizes in Markdown."""
    header = (
        "| agents | steps/min each | calls/s | workers | database cores | connections "
        "| disk GB/day | log GB/day |\n|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    lines = [header]
    for agents, pace in sizes:
        size = size_for_agents(agents, pace, costs)
        lines.append(
            f"| {agents:,} | {pace:g} | {size.calls_per_second:,.1f} | {size.workers} "
            f"| {size.database_cores} | {size.connections} | {size.disk_gigabytes_per_day:.1f} "
            f"| {size.log_gigabytes_per_day:.1f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int)
    parser.add_argument("--steps-per-minute", type=float, default=2.0)
    parser.add_argument("--balancing", choices=get_args(Balancing), default="sticky")
    options = parser.parse_args()
    costs = read_costs(options.balancing)
    sizes = [(options.agents, options.steps_per_minute)] if options.agents else SIZES
    sys.stdout.write(
        f"CPU per step cycle, {options.balancing} calls: {costs.server_ms:.2f} ms in the servers, "
        f"{costs.database_ms:.2f} ms in PostgreSQL ({costs.source}); "
        f"processes at {UTILIZATION:.0%} of a core\n\n{format_sizes(sizes, costs)}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
