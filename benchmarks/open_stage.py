"""CPU time for opening a stage of 8,000 jobs, and the sizes of its reply and its audit entries.

The stage has one job for each combination of three of 20 models. Feedback on the previous stage
opens it, by a tool call in this process. CPU time is the sum of user and system time, of this
process and of the processes of the embedded PostgreSQL. A missed limit is printed as "not reached".

    python benchmarks/open_stage.py [--rounds 3]
"""

import argparse
from statistics import median
from typing import NamedTuple

import orjson
import uvloop

from job_cycle import DEFINITION, Meter, begin_run, call, open_stage
from waybook.accounts.model import LOCAL_ORG
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

MODELS = 20
JOBS = MODELS**3
MAX_CPU_SECONDS = 1.0
MAX_REPLY_BYTES = 4_000
#: Maximum size of an audit entry. The entries of a stage together contain all its jobs.
MAX_ENTRY_BYTES = 600_000


class Opening(NamedTuple):
    """Resources that opening a stage used, and sizes of the reply and the largest audit entry."""

    python: float
    postgres: float
    statements: float
    reply_bytes: float
    entry_bytes: float
    entries: float


async def measure_opening(system: Application, meter: Meter) -> Opening:
    """Start a run, and measure the opening of its stage with many jobs."""
    run = await begin_run(system, MODELS)
    before = meter.read()
    reply = await open_stage(system, run)
    after = meter.read()
    (rows,) = await system.dispatcher.services.database.read_org(
        LOCAL_ORG,
        "select max(length(details::text)), count(*) filter (where length(details::text) > 9999)"
        " from audit_entry where subject_id = (select id from run order by id desc limit 1)",
    )
    used = (after.python - before.python, after.postgres - before.postgres)
    statements = after.statements - before.statements
    return Opening(*used, statements, len(orjson.dumps(reply)), *rows[0])


async def main(rounds: int) -> None:
    """Open a stage several times; do not count the first time."""
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with start_application(settings, sweeping=False) as system:
            meter = Meter(folder)
            await call(system, "add_dag", definition=DEFINITION)
            freeze_gc()
            with meter.counting():
                openings = [await measure_opening(system, meter) for _ in range(rounds + 1)]
    report(Opening(*map(median, zip(*openings[1:], strict=True))))


def report(opening: Opening) -> None:
    """Print the medians, and whether they are within the limits."""
    print(f"stage of {JOBS:,} jobs: {opening.statements:.0f} statements,", end=" ")
    print(f"{opening.entries:.0f} large audit entries")
    print(f"Python {opening.python:.2f} s, PostgreSQL {opening.postgres:.2f} s")
    limits = {
        "CPU seconds": (opening.python + opening.postgres, MAX_CPU_SECONDS),
        "reply bytes": (opening.reply_bytes, MAX_REPLY_BYTES),
        "bytes of the largest entry": (opening.entry_bytes, MAX_ENTRY_BYTES),
    }
    for name, (value, limit) in limits.items():
        remark = "" if value <= limit else ": not reached"
        print(f"{name:28}{value:12,.2f}   limit at most {limit:,}{remark}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    uvloop.run(main(parser.parse_args().rounds))
