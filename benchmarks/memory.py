"""Memory of a server process over 50,000 tool calls: growth after its caches are full.

16 concurrent workers create plans of ten steps, and claim and submit every step, by tool calls in
this process. The caches of ids are filled before the calls, because the measured calls alone would
not fill them. The resident memory of the process is read after a tenth, after half and after all of
the calls. The benchmark fails if the memory grows by more than the limit per call between the
second and the third reading.

    python benchmarks/memory.py [--calls 50000] [--trace]

With `--trace`, the lines of code whose allocations grew most are printed; this takes much longer.
"""

import argparse
import asyncio
import gc
import os
import subprocess
import tracemalloc

import uvloop

from limits import Check, finish
from step_cycle import STEPS, WORKERS, create_plans, work_through
from waybook.accounts.model import LOCAL_ORG
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.core.ids import is_id
from waybook.settings_reading import read_settings
from waybook.store.driver.queries import new_id

#: Maximum growth of the memory in bytes per call after the caches are full.
MAX_GROWTH_BYTES = 200.0
#: Number of calls for a plan: one to create it, and two to claim and submit each step.
CALLS_PER_PLAN = 1 + 2 * STEPS
#: Fractions of the calls after which the memory is read.
PARTS = (0.1, 0.5, 1.0)
#: Number of lines of code that `--trace` prints.
TRACED_LINES = 15
#: Number of ids with which the caches are filled, more than any cache keeps.
CACHED_IDS = 32_768


def resident_bytes() -> int:
    """Return the resident memory of this process after a garbage collection."""
    gc.collect()
    command = ["ps", "-o", "rss=", "-p", str(os.getpid())]
    return 1024 * int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def fill_caches(system: Application) -> None:
    """Fill the caches of ids up to their limits with ids that do not exist."""
    services = system.dispatcher.services
    for _ in range(CACHED_IDS):
        step_id = new_id()
        if is_id(step_id):
            services.step_parents.put(LOCAL_ORG, step_id, step_id)


async def work(system: Application, worker: int, first: int, plans: int) -> None:
    """Create plans and work through them, each in a new session."""
    for number in range(first, first + plans):
        await work_through(system, f"{worker}-{number}", await create_plans(system, 1))


async def measure(calls: int, *, traced: bool) -> list[tuple[int, int]]:
    """Make the calls; print and return their number and the resident memory after each part."""
    each, done, figures = calls // (WORKERS * CALLS_PER_PLAN), 0, []
    earlier = None
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder, "pool_size": WORKERS}, {}).settings
        async with start_application(settings, sweeping=False) as system:
            fill_caches(system)
            freeze_gc()
            for part in PARTS:
                plans = round(each * part) - done
                await asyncio.gather(*[work(system, n, done, plans) for n in range(WORKERS)])
                done += plans
                calls_done, size = done * WORKERS * CALLS_PER_PLAN, resident_bytes()
                figures.append((calls_done, size))
                print(f"after {calls_done:7,} calls{size / 1e6:10.1f} MB", flush=True)
                if traced:
                    earlier = trace(earlier)
    return figures


def trace(earlier: tracemalloc.Snapshot | None) -> tracemalloc.Snapshot:
    """Print the lines of code whose allocations have grown most since `earlier`."""
    snapshot = tracemalloc.take_snapshot()
    for line in snapshot.compare_to(earlier, "lineno")[:TRACED_LINES] if earlier else ():
        print(line)
    return snapshot


def report(figures: list[tuple[int, int]]) -> None:
    """Print the growth of the memory; exit with code 1 if it exceeds the limit."""
    (_, (calls, size), (all_calls, last)) = figures
    growth = (last - size) / (all_calls - calls)
    name = "growth in bytes per call, second half"
    check = Check(name=name, rounds=[growth], direction="<=", limit=MAX_GROWTH_BYTES)
    megabytes = {calls: size / 1e6 for calls, size in figures}
    finish("memory", [check], megabytes=megabytes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    if arguments.trace:
        tracemalloc.start()
    report(uvloop.run(measure(arguments.calls, traced=arguments.trace)))
