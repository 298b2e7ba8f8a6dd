"""Rates and CPU times of server processes, PostgreSQL and callers, for `workers.py`."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from flood import cpu_seconds
from server_cpu import server_cpu_seconds

CORES: Final = os.cpu_count() or 1


class Target(NamedTuple):
    """Addresses that an agent calls in turn, and ids of the server processes."""

    addresses: Sequence[str]
    processes: Sequence[int]


class Measured(NamedTuple):
    """Steps or requests per second, and CPU milliseconds per step or request."""

    rate: float
    python: float
    #: CPU time of the server process that used the most.
    busiest: float
    postgres: float
    callers: float

    def share(self, cpu_ms: float) -> float:
        """Return a CPU time per step or request as a percentage of all CPU time of the machine."""
        return cpu_ms * self.rate / 10 / CORES


class Usage(NamedTuple):
    """CPU seconds used so far by the server processes, PostgreSQL and the callers."""

    servers: Sequence[float]
    postgres: float
    callers: float
    #: Time in seconds at which these values were read.
    time: float


def worker_processes(server: int) -> list[int]:
    """Return the processes that answer calls: a supervisor's children, or the process itself."""
    children = Path(f"/proc/{server}/task/{server}/children").read_text("ascii").split()
    return [int(child) for child in children] or [server]


def read_usage(processes: Sequence[int], postmaster: int) -> Usage:
    """Return the CPU time that all processes have used so far."""
    servers = [cpu_seconds(process) for process in processes]
    postgres = server_cpu_seconds(postmaster)
    return Usage(servers, postgres, time.process_time(), time.perf_counter())


def usage_per_cycle(before: Usage, after: Usage, cycles: int) -> Measured:
    """Return the rate and the CPU time per step or request between two readings."""
    per_cycle = 1000 / cycles
    servers = [b - a for a, b in zip(before.servers, after.servers, strict=True)]
    return Measured(
        rate=cycles / (after.time - before.time),
        python=sum(servers) * per_cycle,
        busiest=max(servers) * per_cycle,
        postgres=(after.postgres - before.postgres) * per_cycle,
        callers=(after.callers - before.callers) * per_cycle,
    )
