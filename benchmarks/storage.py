"""Bytes per step cycle (claim and submit): write-ahead log, and disk by table and index.

The plans of `step_cycle.py` are worked through on an embedded server without autovacuum and without
full-page images (`full_page_writes = off`): both depend on the time, not on the calls. The size of
the write-ahead log is the difference of its insert positions before and after the calls. The disk
space of a relation is the difference of its sizes before and after the calls, each after a vacuum;
free space inside a relation counts. The plans are created before the measurement.

    python benchmarks/storage.py [--cycles 3200]
"""

import argparse
import asyncio
import sys
from collections import Counter
from typing import NamedTuple

import psycopg
import uvloop

from step_cycle import STEPS, WORKERS, create_plans, work_through
from waybook.bootstrap import start_application
from waybook.cli.demo.environment import temporary_database
from waybook.embedded_postgres.supervisor import attach
from waybook.settings import Settings
from waybook.settings_reading import read_settings

#: Maximum bytes to claim and submit a step, in the write-ahead log and on disk.
MAX_WAL_BYTES = 6_700
MAX_DISK_BYTES = 4_500

SIZES = """
select coalesce(t.relname, c.relname), c.relname, pg_table_size(c.oid)
  from pg_class c
  left join pg_index i on i.indexrelid = c.oid
  left join pg_class t on t.oid = i.indrelid
 where c.relkind in ('r', 'i')
   and c.relnamespace = 'public'::regnamespace
"""


class Sizes(NamedTuple):
    """Position in the write-ahead log, and sizes by table and relation in bytes."""

    wal: int
    disk: Counter[tuple[str, str]]


def measure(admin: psycopg.Connection, wal: int) -> Sizes:
    """Run a vacuum; return the sizes of all relations, with `wal` as the position in the log."""
    admin.execute("vacuum analyze")
    rows = admin.execute(SIZES).fetchall()
    return Sizes(wal, Counter({(table, name): size for table, name, size in rows}))


def wal_position(admin: psycopg.Connection) -> int:
    row = admin.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchone()
    assert row
    return int(row[0])


async def prepare(settings: Settings, each: int) -> list[list[object]]:
    """Work through a plan per worker as a warm-up; create the plans to measure."""
    async with start_application(settings, sweeping=False) as system:
        for n in range(WORKERS):
            await work_through(system, f"warm-{n}", await create_plans(system, 1))
        return [await create_plans(system, each) for _ in range(WORKERS)]


async def work(settings: Settings, plans: list[list[object]]) -> None:
    """Work through the plans, several at the same time, and wait until the call log is written."""
    async with start_application(settings, sweeping=False) as system:
        workers = [work_through(system, f"agent-{n}", mine) for n, mine in enumerate(plans)]
        await asyncio.gather(*workers)


async def main(cycles: int) -> bool:
    """Measure and print the bytes per step; return whether they are within the limits."""
    each = max(1, cycles // (WORKERS * STEPS))
    with temporary_database(durable=False) as folder, attach(folder, durable=False) as server:
        urls = {"database_url": server.app_dsn, "owner_url": server.owner_dsn}
        options = {
            "data_dir": folder,
            "pool_size": WORKERS,
            "search_vectors": "portable",
            "migrate": "always",
        }
        settings = read_settings({**urls, **options}, {}).settings
        with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
            admin.execute("alter system set autovacuum = off")
            admin.execute("select pg_reload_conf()")
            plans = await prepare(settings, each)
            # The vacuum also writes to the write-ahead log, so read the position in the log after
            # it.
            before = measure(admin, 0)
            start = wal_position(admin)
            await work(settings, plans)
            after = measure(admin, wal_position(admin) - start)
    return report(after.wal, after.disk - before.disk, WORKERS * each * STEPS)


def report(wal: int, disk: Counter[tuple[str, str]], cycles: int) -> bool:
    """Print the bytes per step, largest relation first; return whether both limits are kept."""
    print(f"{'bytes per step cycle':44}{'bytes':>8}")
    for (table, name), size in disk.most_common():
        label = table if name == table else f"{table}: {name}"
        print(f"  {label:42}{size / cycles:8.0f}")
    total, logged = disk.total() / cycles, wal / cycles
    print(f"{'disk':44}{total:8.0f}   limit {MAX_DISK_BYTES}")
    print(f"{'write-ahead log':44}{logged:8.0f}   limit {MAX_WAL_BYTES}")
    return total <= MAX_DISK_BYTES and logged <= MAX_WAL_BYTES


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=3200)
    sys.exit(not uvloop.run(main(parser.parse_args().cycles)))
