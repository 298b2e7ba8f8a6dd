"""The rate of step cycles (take + submit) beside two hand-written SQL functions.

Both run on the same embedded server in the same run, 16 at a time, each worker on plans of its
own; ours with tenant, row-level security, rules, audit chain and idempotency. The peer is the
least that could do the job: one function takes a step, one completes it, each with an audit row
and a stored answer, called through the same driver.

    python benchmarks/step_cycle.py [--cycles 3000]
"""

import argparse
import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import uvloop
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from waybook.cli.demo.place import a_place_for_once
from waybook.doorway import Channel
from waybook.settings import read_settings
from waybook.wiring import Running, running, server

Pool: TypeAlias = AsyncConnectionPool[AsyncConnection[TupleRow]]

WORKERS = 16
STEPS = 30
LIMIT = 0.4

PEER = """
create schema peer;
create table peer.plan (id int primary key, status text not null, seq int not null default 0);
create table peer.step (plan_id int not null, n int not null, status text not null,
                        instructions text not null, result jsonb, primary key (plan_id, n))
  with (fillfactor = 85);
create table peer.audit (plan_id int not null, seq int not null, at timestamptz not null,
                         event text not null, details jsonb, primary key (plan_id, seq));
create table peer.answer (key text primary key, answer jsonb not null);

create function peer.take(p int, k text) returns jsonb language plpgsql as $$
declare s record; q int; a jsonb;
begin
  update peer.plan set seq = seq + 1, status = 'executing' where id = p returning seq into q;
  select answer into a from peer.answer where key = k;
  if found then return a; end if;
  select n, instructions into s from peer.step
   where plan_id = p and status = 'pending' order by n limit 1;
  if not found then return null; end if;
  update peer.step set status = 'in_progress' where plan_id = p and n = s.n;
  insert into peer.audit
  values (p, q, clock_timestamp(), 'step_started', jsonb_build_object('step', s.n));
  a := jsonb_build_object('step', s.n, 'instructions', s.instructions);
  insert into peer.answer values (k, a);
  return a;
end $$;

create function peer.submit(p int, done int, r jsonb, k text) returns jsonb language plpgsql as $$
declare q int; a jsonb; open int;
begin
  update peer.plan set seq = seq + 1 where id = p returning seq into q;
  select answer into a from peer.answer where key = k;
  if found then return a; end if;
  update peer.step set status = 'completed', result = r
   where plan_id = p and n = done and status = 'in_progress';
  insert into peer.audit
  values (p, q, clock_timestamp(), 'step_completed',
          jsonb_build_object('step', done, 'result', r));
  select count(*) into open from peer.step where plan_id = p and status <> 'completed';
  if open = 0 then update peer.plan set status = 'completed' where id = p; end if;
  a := jsonb_build_object('step', done, 'open', open);
  insert into peer.answer values (k, a);
  return a;
end $$;
"""

RESULT = '{"findings": "Three sources agree; one is older than the rest.", "sources": [1, 2, 3]}'
INSTRUCTIONS = "Read the three newest sources and note where they disagree. " * 4


async def waybook_cycles(system: Running, worker: int, cycles: int) -> None:
    """Work through plans of 30 steps through the doorway."""
    caller = system.caller(Channel.MCP)

    async def call(tool: str, **arguments: object) -> dict[str, object]:
        answer = await system.doorway.enter(caller, tool, arguments)
        assert not answer.is_error, answer.body
        return answer.body

    plan: object = None
    for cycle in range(cycles):
        if cycle % STEPS == 0:
            steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * STEPS
            made = await call("create_research_plan", name="b", researchQuestion="q", steps=steps)
            plan = made["planId"]
        key = f"{worker}-{cycle}"
        ready = await call("get_next_step", planId=plan, sessionId=f"w{worker}", idempotencyKey=key)
        await call(
            "submit_step_result",
            stepId=ready["stepId"],
            attempt=ready["attempt"],
            resultSummary=RESULT,
            confidence=0.8,
            sessionId=f"w{worker}",
            idempotencyKey=key,
        )


MAKE_PLAN = """
with made as (insert into peer.plan (id, status) values (%s, 'planning'))
insert into peer.step select %s, n, 'pending', %s, null from generate_series(1, %s) n
"""


async def peer_cycles(pool: Pool, worker: int, cycles: int) -> None:
    """Work through plans of 30 steps through the two functions."""
    plan = 0
    for cycle in range(cycles):
        if cycle % STEPS == 0:
            plan = worker * 1_000_000 + cycle
            async with pool.connection() as connection:
                await connection.execute(MAKE_PLAN, (plan, plan, INSTRUCTIONS, STEPS))
        async with pool.connection() as connection:
            taken = (plan, f"t{worker}-{cycle}")
            cursor = await connection.execute("select peer.take(%s, %s)", taken)
            row = await cursor.fetchone()
            assert row
        async with pool.connection() as connection:
            done = (plan, row[0]["step"], RESULT, f"s{worker}-{cycle}")
            await connection.execute("select peer.submit(%s, %s, %s, %s)", done)


async def rate(work: Callable[[int, int], Awaitable[None]], cycles: int) -> tuple[float, float]:
    """Cycles per second of 16 workers, and Python CPU per cycle in microseconds."""
    each = cycles // WORKERS
    cpu, wall = _cpu(), time.perf_counter()
    await asyncio.gather(*(work(worker, each) for worker in range(WORKERS)))
    took = time.perf_counter() - wall
    return each * WORKERS / took, (_cpu() - cpu) / (each * WORKERS) * 1e6


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main(cycles: int, rounds: int) -> None:
    """Measure both, in turns, and compare."""
    ours, peers = [], []
    with a_place_for_once() as folder:
        settings = read_settings({"data_dir": folder, "pool_size": WORKERS}, {}).settings
        async with (
            running(settings, sweeping=False) as system,
            server(settings) as postgres,
            Pool(
                postgres.owner_dsn, min_size=WORKERS, max_size=WORKERS, kwargs={"autocommit": True}
            ) as pool,
        ):
            async with pool.connection() as connection:
                await connection.execute(PEER)
            for turn in range(rounds + 1):
                mine = partial(_shifted, partial(waybook_cycles, system), turn * 1000)
                peer = partial(_shifted, partial(peer_cycles, pool), turn * 100)
                ours.append(await rate(mine, cycles))
                peers.append(await rate(peer, cycles))
    report(ours[1:], peers[1:])


async def _shifted(
    work: Callable[[int, int], Awaitable[None]], by: int, worker: int, cycles: int
) -> None:
    """The same work for workers of other names, so that no key is used twice."""
    await work(worker + by, cycles)


def report(ours: list[tuple[float, float]], peers: list[tuple[float, float]]) -> None:
    """Print the middle of the rounds, and fail below the limit."""
    mine, peer = sorted(ours)[len(ours) // 2], sorted(peers)[len(peers) // 2]
    ratio = mine[0] / peer[0]
    print(f"{'step cycle, 16 concurrent':34}{'cycles/s':>10}{'Python µs/cycle':>18}")
    print(f"{'two SQL functions':34}{peer[0]:10.0f}{peer[1]:18.0f}")
    print(f"{'Waybook (tenant, audit, idem.)':34}{mine[0]:10.0f}{mine[1]:18.0f}")
    print(f"{'ratio':34}{ratio:10.2f}   limit {LIMIT}")
    assert ratio >= LIMIT, f"{ratio:.2f} of the peer's rate, at least {LIMIT} is promised"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    uvloop.run(main(arguments.cycles, arguments.rounds))
