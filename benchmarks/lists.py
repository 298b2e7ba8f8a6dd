"""Cost of reads that must not grow with the number of plans, compared with reading one plan.

Lists, searches by name, counts, the front page, the stall sweep and the filters of the audit are
measured in an org with 1,000 plans and in an org with 100,000, half of them open. Each result is a
multiple of the time to read one plan by its key, and both reads are measured in turn. A time
includes the message to PostgreSQL, the query, and the creation of Python objects from the rows, but
not of a page or reply. PostgreSQL plans the read by key again each time, because its statement is
not prepared. The benchmark fails if a read exceeds its limit by more than the measured noise.

`page_reads.py` adds the CPU time of PostgreSQL for pages of large plans and runs, and for searches
on a server whose functions are not marked as leakproof.

    PYTHONPATH=.:tests:tests/support python benchmarks/lists.py [--plans 1000 100000] [--rounds 40]
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeAlias

import psycopg
import uvloop

from limits import Check, format_checks, save
from page_reads import check_large_work, check_search
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.accounts.model import LOCAL_ORG
from waybook.app.operations.sweeps import sweep_stalls
from waybook.app.queries.agents import find_subjects
from waybook.app.queries.audit import AuditFilter, browse_audit
from waybook.app.queries.inbox import count_pending
from waybook.app.queries.overview import LastLook, read_overview
from waybook.app.queries.work_list import (
    ListOrder,
    PlanFilter,
    RunFilter,
    list_runs,
    plan_summaries,
)
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.cli.demo.environment import temporary_database
from waybook.core.decision_context import Channel
from waybook.core.shown import Shown
from waybook.embedded_postgres.supervisor import attach
from waybook.store.driver.database import Database
from waybook.store.driver.pool import ConnectionPool
from waybook.store.maintenance.migrate import migrate

FILL = Path(__file__).with_suffix(".sql").read_text()
#: Maximum time of a read, as a multiple of the time to read one plan by its key.
MAX_RATIO = 5.0

Read: TypeAlias = Callable[[RequestContext], Awaitable[object]]


def read_by_name() -> Mapping[str, Read]:
    """Return the reads to measure, by name."""

    def plans(wanted: PlanFilter) -> Read:
        return lambda ctx: plan_summaries(ctx, wanted, limit=20)

    def audit(wanted: AuditFilter) -> Read:
        return lambda ctx: browse_audit(ctx, wanted, limit=20)

    active = PlanFilter(order=ListOrder.ACTIVITY)
    newest = PlanFilter(order=ListOrder.CREATION)

    def named(text: str) -> PlanFilter:
        return newest._replace(all=True, text=text)

    def runs_named(text: str) -> Read:
        return lambda ctx: list_runs(ctx, RunFilter(order=ListOrder.CREATION, text=text), 20)

    look = LastLook(since=None, looked_at=None)
    return {
        "list_active_plans": plans(active),
        "waybook plans --all": plans(active._replace(all=True)),
        "plans, newest first": plans(newest),
        "stalled plans": plans(newest._replace(state=Shown.STALLED)),
        "plans waiting for review": plans(newest._replace(state=Shown.NEEDS_YOU)),
        "plans of one user": plans(newest._replace(creator="user-7")),
        "plan by rare name": plans(named("c4ca4238a0b923820dcc509a6f75849b")),
        "plans by common name": plans(named("region")),
        "plan by missing name": plans(named("no such plan")),
        "plan by a part of a word": plans(named("4238a0b923820dcc")),
        "audit of a plan by name": lambda ctx: find_subjects(ctx, "c4ca4238a0b9"),
        "runs": lambda ctx: list_runs(ctx, RunFilter(order=ListOrder.CREATION), 20),
        "run by rare name": runs_named("c4ca4238a0b923820dcc509a6f75849b"),
        "runs by common name": runs_named("region"),
        "run by missing name": runs_named("no such run"),
        "runs by activity": lambda ctx: list_runs(ctx, RunFilter(order=ListOrder.ACTIVITY), 20),
        "front page": lambda ctx: read_overview(ctx, look),
        "number of waiting items": count_pending,
        "stall sweep": sweep_stalls,
        "audit": audit(AuditFilter()),
        "audit of one agent": audit(AuditFilter(actor="agent-7")),
        "audit of an unknown agent": audit(AuditFilter(actor="unknown")),
        "audit of one event": audit(AuditFilter(event="step_failed")),
        "audit of one channel": audit(AuditFilter(channel="cli")),
    }


class Cost(NamedTuple):
    """Milliseconds of a read, also as a multiple of a read of one plan by key, with its noise."""

    ms: float
    ratio: float
    noise: float

    def exceeds(self, limit: float) -> bool:
        """Return whether the limit is exceeded by more than the noise."""
        return self.ratio - self.noise > limit


async def seconds(read: Read, ctx: RequestContext) -> float:
    started = time.perf_counter()
    await read(ctx)
    return time.perf_counter() - started


async def cost(read: Read, by_key: Read, ctx: RequestContext, rounds: int) -> Cost:
    """Return the lower quartile of a read's times, also as a multiple of that of a read by key.

    Each round measures both reads. The noise is the difference between this multiple and the ratio
    of the medians.
    """
    for _ in range(3):
        await read(ctx)
    pairs = [(await seconds(by_key, ctx), await seconds(read, ctx)) for _ in range(rounds)]
    (key, key_median, _), (low, median, _) = (
        statistics.quantiles(times, n=4) for times in zip(*pairs, strict=True)
    )
    return Cost(1_000 * low, low / key, abs(median / key_median - low / key))


async def measure(plans: int, rounds: int) -> tuple[dict[str, Cost], list[Check]]:
    """Return the cost of each read in an org with this many plans, and those of searches."""
    # Filling the database is faster without flushes to disk, which have no effect on reads.
    with (
        temporary_database(durable=False) as folder,
        attach(folder, durable=False) as postgres,
    ):
        migrate(postgres.owner_dsn)
        stages = (make_stage(slug, make_recipe_step("k")) for slug in "st")
        body = json.dumps(make_definition("bench", *stages))
        query = FILL.replace(":plans", str(plans)).replace(":org", str(LOCAL_ORG))
        with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
            started = time.perf_counter()
            admin.execute(query.replace(":body", body).encode())
            admin.execute("vacuum analyze")
            print(
                f"filled with {plans:,} plans in {time.perf_counter() - started:.0f} s", flush=True
            )
            row = admin.execute("select id::text from plan limit 1").fetchone()
        assert row is not None
        with closing(Database(ConnectionPool(postgres.app_dsn, size=1), role=None)) as database:
            caller = Caller(org_id=LOCAL_ORG, user="ann", channel=Channel.MCP)
            ctx = RequestContext(services=Services(database=database), caller=caller)
            text = f"select * from plan where id = '{row[0]}'"  # noqa: S608 - an id

            async def by_key(ctx: RequestContext) -> object:
                return await ctx.read(text)

            reads = {"one plan by its key": by_key, **read_by_name()}
            costs = {name: await cost(read, by_key, ctx, rounds) for name, read in reads.items()}
            with psycopg.connect(postgres.admin_dsn, autocommit=True) as admin:
                admin.execute("alter function ts_match_vq(tsvector, tsquery) not leakproof")
            return costs, await check_search(ctx, folder, plans)


async def main(sizes: list[int], rounds: int) -> bool:
    """Print the cost of each read for each number of plans; return whether no limit is exceeded."""
    checks, costs = await check_large_work(), dict[int, dict[str, Cost]]()
    for size in sizes:
        costs[size], searches = await measure(size, rounds)
        checks += searches
    save("page-reads", checks)
    print(format_checks(checks))
    print(f"{'read':28}" + "".join(f"{f'{size:,} plans':>30}" for size in sizes) + f"{'limit':>8}")
    missed = any(check.is_missed() for check in checks)
    for name in costs[sizes[0]]:
        cells = ""
        for size in sizes:
            ms, ratio, noise = costs[size][name]
            cells += f"{ms:12.2f} ms{ratio:7.1f}x ± {noise:4.1f}"
        over = any(costs[size][name].exceeds(MAX_RATIO) for size in sizes)
        missed = missed or over
        print(f"{name:28}{cells}{MAX_RATIO:7.0f}x{'  MISSED' if over else ''}")
    for size in sizes:
        milliseconds = {name: cost.ms for name, cost in costs[size].items()}
        save(f"lists-{size}", plans=size, milliseconds=milliseconds)
    return not missed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    sys.exit(0 if uvloop.run(main(options.plans, options.rounds)) else 1)
