"""CPU time for opening a stage of 8,000 jobs, and the sizes of its reply and its audit entries.

The stage has one job for each combination of three of 20 models. Feedback on the previous stage
opens it, by a tool call in this process. CPU time is the sum of user and system time, of this
process and of the processes of the embedded PostgreSQL. It is compared with the floor: a driver
that writes as many jobs as JSON into an indexed table, in one statement.

    python benchmarks/open_stage.py [--rounds 3]
"""

import argparse
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import orjson
import uvloop
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from job_cycle import DEFINITION, Meter, begin_run, call, open_stage
from limits import Check, finish
from waybook.accounts.model import LOCAL_ORG
from waybook.application import database_server
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.settings_reading import read_settings

MODELS = 20
JOBS = MODELS**3
#: Maximum CPU time as a multiple of the floor's.
MAX_CPU_RATIO = 11.5
MAX_REPLY_BYTES = 500
#: Maximum size of an audit entry. The entries of a stage together contain all its jobs.
MAX_ENTRY_BYTES = 290_000


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


FLOOR_TABLE = """
create table if not exists floor_job (id text primary key, stage text, job jsonb);
create index if not exists floor_job_stage on floor_job (stage, id)"""
FLOOR = """
insert into floor_job select job ->> 'id', job ->> 'stage', job from jsonb_array_elements(%s) job"""


async def measure_floor(owner: AsyncConnection[TupleRow], meter: Meter, turn: int) -> float:
    """Write the jobs of a stage as the floor does; return the CPU seconds."""
    before = meter.read()
    jobs = [
        {"id": f"{turn}-{n}", "stage": f"stage {turn}", "status": "pending", "models": [n, n, n]}
        for n in range(JOBS)
    ]
    await owner.execute(FLOOR, [orjson.dumps(jobs).decode()])
    after = meter.read()
    return after.python - before.python + after.postgres - before.postgres


async def main(rounds: int) -> None:
    """Open a stage and write the floor in turn; do not count the first round."""
    openings, floors = list[Opening](), list[float]()
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder}, {}).settings
        async with (
            start_application(settings, sweeping=False) as system,
            database_server(settings) as postgres,
            await AsyncConnection.connect(postgres.owner_dsn, autocommit=True) as owner,
        ):
            meter = Meter(folder)
            await owner.execute(FLOOR_TABLE)
            await call(system, "add_dag", definition=DEFINITION)
            freeze_gc()
            with meter.counting():
                for turn in range(rounds + 1):
                    openings.append(await measure_opening(system, meter))
                    floors.append(await measure_floor(owner, meter, turn))
    report(openings[1:], floors[1:])


def report(openings: Sequence[Opening], floors: Sequence[float]) -> None:
    """Print the medians; exit with code 1 if a limit is missed."""
    opening, floor = Opening(*map(median, zip(*openings, strict=True))), median(floors)
    print(f"stage of {JOBS:,} jobs: {opening.statements:.0f} statements,", end=" ")
    print(f"{opening.entries:.0f} large audit entries")
    print(
        f"Python {opening.python:.2f} s, PostgreSQL {opening.postgres:.2f} s, floor {floor:.2f} s"
    )
    ratios = [
        (each.python + each.postgres) / least for each, least in zip(openings, floors, strict=True)
    ]
    sizes = {
        "reply bytes": ([each.reply_bytes for each in openings], MAX_REPLY_BYTES),
        "bytes of the largest entry": ([each.entry_bytes for each in openings], MAX_ENTRY_BYTES),
    }
    finish(
        "open_stage",
        [
            Check(name="CPU, stage : floor", rounds=ratios, direction="<=", limit=MAX_CPU_RATIO),
            *(
                Check(name=name, rounds=rounds, direction="<=", limit=limit)
                for name, (rounds, limit) in sizes.items()
            ),
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    uvloop.run(main(parser.parse_args().rounds))
