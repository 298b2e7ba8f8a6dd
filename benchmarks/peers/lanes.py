"""The work of the benchmark, which a program for each compared system does on request of `run.py`.

Such a program, called a driver, is a process with 16 concurrent workers, called lanes. A lane works
through plans of ten steps, one step after the other. A cycle is the durable claim and completion of
one step. `run.py` (the coordinator) sends a request for a round on standard input; the driver
creates the plans and answers that it is ready. When the next line arrives, the driver works through
the plans, and answers with its figures. All lines are JSON.

This module imports nothing but uvloop and the standard library, because each driver runs in the
environment of the system that it measures.
"""

import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

import uvloop

LANES = 16
STEPS = 10
#: Texts of every step, which are the same in `step_cycle.py`.
RESULT = '{"findings": "Three sources agree; one is older than the rest.", "sources": [1, 2, 3]}'
INSTRUCTIONS = "Read the three newest sources and note where they disagree. " * 4

#: Function that creates the plans of a round, and returns the work of each lane (worker). Its
#: arguments are the number of the round, and the number of plans per lane.
Prepare: TypeAlias = Callable[[int, int], Awaitable[Sequence[Awaitable[object]]]]
#: Function that returns how many steps are not completed after a round.
CountOpen: TypeAlias = Callable[[], Awaitable[int]]


async def serve(prepare: Prepare, count_open: CountOpen | None = None) -> None:
    """Run a round for each request, until `run.py` closes standard input.

    If the lanes (workers) do not check their results, `count_open` checks that all steps are
    completed.
    """
    is_warm = False
    while line := sys.stdin.readline():
        request = json.loads(line)
        lanes = await prepare(request["turn"], request["plans"])
        _write(ready=True)
        sys.stdin.readline()
        cpu, started = cpu_seconds(), time.perf_counter()
        await asyncio.gather(*lanes)
        seconds, used = time.perf_counter() - started, cpu_seconds() - cpu
        assert count_open is None or await count_open() == 0
        _write(cycles=LANES * STEPS * request["plans"], seconds=seconds, cpu=used)
        if not is_warm:
            _freeze_gc()
            is_warm = True


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a driver on the event loop that Waybook uses too."""
    uvloop.run(main)


def _freeze_gc() -> None:
    """Use the garbage collection settings of Waybook for every system."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _write(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
