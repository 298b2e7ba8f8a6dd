"""Program that runs the benchmark's work on Absurd: tasks of ten steps, or one task per step.

In the variant `steps`, a plan is a task with ten checkpointed steps: the task is claimed once, and
each step reads and writes its checkpoint. In the variant `tasks`, each step is a task of its own,
which is claimed and completed by itself, as in Waybook. Each lane (concurrent worker) has its own
connection.
"""

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from typing import Any

from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from absurdctl import BUNDLED_SCHEMA_SQL
from psycopg import AsyncConnection

import lanes

IS_INSTALLED = "select to_regnamespace('absurd') is not null"
CREATE_QUEUE = "select absurd.create_queue('default')"
COUNT_OPEN = "select count(*) from absurd.t_default where state <> 'completed'"


async def work_on_steps(parameters: dict[str, Any], context: AsyncTaskContext) -> str:
    async def result() -> str:
        return lanes.RESULT

    for number in range(len(parameters["steps"])):
        await context.step(f"step-{number}", result)
    return "done"


async def work_on_task(_parameters: dict[str, Any], _context: AsyncTaskContext) -> str:
    return lanes.RESULT


async def install(owner: AsyncConnection[Any]) -> None:
    if await (await owner.execute(IS_INSTALLED)).fetchone() == (False,):
        await owner.execute(BUNDLED_SCHEMA_SQL.encode())
        await owner.execute(CREATE_QUEUE)


async def main(address: str, variant: str) -> None:
    """Install the schema if it is missing, and run the rounds that `run.py` requests."""
    owner = await AsyncConnection.connect(address, autocommit=True)
    await install(owner)
    workers = [AsyncAbsurd(address) for _ in range(lanes.LANES)]
    for worker in workers:
        worker.register_task("steps")(work_on_steps)
        worker.register_task("tasks")(work_on_task)
    count = 1 if variant == "steps" else lanes.STEPS
    steps = [lanes.INSTRUCTIONS] * (lanes.STEPS // count)

    async def spawn(worker: AsyncAbsurd, plans: int) -> None:
        for _ in range(plans * count):
            await worker.spawn(variant, {"steps": steps})

    async def work(worker: AsyncAbsurd, plans: int) -> None:
        for _ in range(plans * count):
            await worker.work_batch(batch_size=1)

    async def prepare(_: int, plans: int) -> Sequence[Awaitable[object]]:
        await asyncio.gather(*(spawn(worker, plans) for worker in workers))
        return [work(worker, plans) for worker in workers]

    async def count_open() -> int:
        (number,) = await (await owner.execute(COUNT_OPEN)).fetchone()
        return number

    await lanes.serve(prepare, count_open)


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
