"""Program that runs the benchmark's work on the SQL functions in `step_cycle_peer.sql`.

The functions give the guarantees of Waybook. The variant `psycopg` calls them through psycopg, and
commits calls that arrive at the same time together, as Waybook does. The variant `driver` calls
them through the database driver of Waybook, with one message per call. In the variant `together`,
one function and one message submit a step and claim the next one.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

import lanes
from step_cycle import (
    CONNECTION_OPTIONS,
    PEER,
    Pool,
    create_peer_plans,
    open_groups,
    work_through_as_peer,
)
from waybook.accounts.model import LOCAL_ORG
from waybook.application import DatabaseServer, database_server
from waybook.settings_reading import read_settings
from waybook.store.driver.pool import ConnectionPool
from waybook.store.driver.queries import Query, Statement

TAKE = Query("floor_take", "select peer.take(%(tenant)s, %(plan)s, %(session)s, %(key)s)")
SUBMIT = Query(
    "floor_submit",
    "select peer.submit(%(tenant)s, %(plan)s, %(step)s, %(attempt)s, %(result)s, %(session)s,"
    " %(key)s)",
)
SUBMIT_AND_TAKE = Query(
    "floor_submit_and_take",
    "select peer.submit_and_take(%(tenant)s, %(plan)s, %(step)s, %(attempt)s, %(result)s,"
    " %(session)s, %(key)s)",
)
#: For each variant, the id of its first plan. All variants use the same tables, and each round of a
#: variant reserves `PLANS_PER_ROUND` ids.
FIRST_PLAN = {"psycopg": 0, "driver": 1_000_000_000, "together": 2_000_000_000}
PLANS_PER_ROUND = 100_000


async def send(pool: ConnectionPool, statement: Statement) -> dict[str, Any]:
    line = await pool.acquire(LOCAL_ORG.int)
    try:
        ((row,),) = await line.send((), (statement,))
    finally:
        await pool.release(line, LOCAL_ORG.int)
    reply: dict[str, Any] = row[0]
    return reply


async def work_together(pool: ConnectionPool, session: str, plans: Sequence[int]) -> None:
    """Claim the first step of each plan; each submit also claims the next step."""
    for plan in plans:
        common: dict[str, Any] = {"tenant": LOCAL_ORG, "plan": plan, "session": session}
        held = await send(pool, TAKE(key=f"t{plan}", **common))
        for step in range(lanes.STEPS):
            place = {"step": held["step"], "attempt": held["attempt"]}
            key = f"s{plan}-{step}"
            held = await send(
                pool, SUBMIT_AND_TAKE(key=key, result=lanes.RESULT, **place, **common)
            )


async def work_through_driver(pool: ConnectionPool, session: str, plans: Sequence[int]) -> None:
    """Claim and submit every step of these plans, with two calls for each step."""
    for plan in plans:
        common: dict[str, Any] = {"tenant": LOCAL_ORG, "plan": plan, "session": session}
        for step in range(lanes.STEPS):
            held = await send(pool, TAKE(key=f"t{plan}-{step}", **common))
            place = {"step": held["step"], "attempt": held["attempt"]}
            key = f"s{plan}-{step}"
            await send(pool, SUBMIT(key=key, result=lanes.RESULT, **place, **common))


@asynccontextmanager
async def open_owner_pool(postgres: DatabaseServer) -> AsyncIterator[Pool]:
    """Create the tables if they are missing; yield a connection pool of their owner."""
    async with Pool(postgres.owner_dsn, min_size=1, kwargs=CONNECTION_OPTIONS) as owner:
        async with owner.connection() as connection:
            cursor = await connection.execute("select to_regnamespace('peer') is not null")
            if (await cursor.fetchone()) == (False,):
                await connection.execute(PEER.read_bytes())
        yield owner


async def main(data_dir: str, variant: str) -> None:
    """Create the functions, and run the rounds that `run.py` requests."""
    settings = read_settings({"data_dir": data_dir}, {}).settings
    async with (
        database_server(settings) as postgres,
        open_owner_pool(postgres) as owner,
        open_groups(postgres.app_dsn) as groups,
    ):
        with closing(ConnectionPool(postgres.app_dsn, size=lanes.LANES)) as driver:

            async def prepare(turn: int, plans: int) -> Sequence[Awaitable[object]]:
                first = FIRST_PLAN[variant] + turn * PLANS_PER_ROUND
                created = [
                    await create_peer_plans(owner, first + lane * plans, plans)
                    for lane in range(lanes.LANES)
                ]
                if variant == "psycopg":
                    return [
                        work_through_as_peer(groups, f"{turn}-{n}", mine)
                        for n, mine in enumerate(created)
                    ]
                work = work_together if variant == "together" else work_through_driver
                return [work(driver, f"{turn}-{n}", mine) for n, mine in enumerate(created)]

            await lanes.serve(prepare)


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
