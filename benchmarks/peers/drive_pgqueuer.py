"""Program that runs the benchmark's work on pgqueuer: a job for each step.

In the variant `single`, each lane (concurrent worker) takes one job in a transaction and completes
it in another, before it takes the next. In the variant `batches`, pgqueuer's own worker takes ten
jobs at a time and reports completed jobs in batches, so completed jobs may be repeated after a
crash. pgqueuer stores no results.
"""

import sys
import uuid
from collections.abc import Awaitable, Sequence
from datetime import timedelta

import asyncpg
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import EntrypointExecutionParameter, Queries
from pgqueuer.types import QueueExecutionMode

import lanes

ENTRYPOINT = "step"
ENTRYPOINTS = {ENTRYPOINT: EntrypointExecutionParameter(0)}
HEARTBEAT = timedelta(seconds=30)
BATCH = 10


async def work_alone(queries: Queries, jobs: int) -> None:
    """Take and complete jobs one by one."""
    worker = uuid.uuid4()
    for _ in range(jobs):
        (job,) = await queries.dequeue(1, ENTRYPOINTS, worker, None, HEARTBEAT)
        assert job.payload
        await queries.log_jobs([(job, "successful", None)])


async def work_in_batches(queries: Queries) -> None:
    """Let the worker of pgqueuer work until the queue is empty."""
    manager = QueueManager(queries)

    @manager.entrypoint(ENTRYPOINT)
    async def step(job: Job) -> None:
        assert job.payload

    await manager.run(
        dequeue_timeout=timedelta(seconds=1),
        batch_size=BATCH,
        mode=QueueExecutionMode.drain,
        log_aggregation_interval=timedelta(0),
    )


async def main(address: str, variant: str) -> None:
    """Install the schema if it is missing, and run the rounds that `run.py` requests."""
    async with asyncpg.create_pool(address, min_size=lanes.LANES, max_size=lanes.LANES + 1) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        if not await queries.schema_is_installed():
            await queries.install()

        async def prepare(_: int, plans: int) -> Sequence[Awaitable[object]]:
            jobs = plans * lanes.STEPS
            payload: list[bytes | None] = [lanes.INSTRUCTIONS.encode()] * jobs
            for _lane in range(lanes.LANES):
                await queries.enqueue([ENTRYPOINT] * jobs, payload, [0] * jobs)
            if variant == "batches":
                return [work_in_batches(queries)]
            return [work_alone(queries, jobs) for _ in range(lanes.LANES)]

        async def count_open() -> int:
            return await pool.fetchval("select count(*) from pgqueuer")

        await lanes.serve(prepare, count_open)


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
