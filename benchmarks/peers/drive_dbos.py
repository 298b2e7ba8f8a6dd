"""Program that runs the benchmark's work on DBOS: workflows with ten steps.

Every step writes its result before the next step starts. Steps are not claimed. A workflow runs as
soon as it is created, so the measurement includes its start, which stores the instructions, and its
end. Each lane (concurrent worker) is a thread. Asynchronous workflows would be slower, because DBOS
sends their queries from other threads.
"""

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS

import lanes


@DBOS.step()
def step(instructions: str) -> str:
    assert instructions
    return lanes.RESULT


@DBOS.workflow()
def plan(steps: list[str]) -> str:
    for instructions in steps:
        step(instructions)
    return "done"


def work(plans: int) -> None:
    for _ in range(plans):
        assert plan([lanes.INSTRUCTIONS] * lanes.STEPS) == "done"


async def main(address: str) -> None:
    """Install the schema if it is missing, and run the rounds that `run.py` requests."""
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": address,
            "sys_db_pool_size": lanes.LANES,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(lanes.LANES)

    async def work_in_thread(plans: int) -> None:
        await loop.run_in_executor(threads, work, plans)

    async def prepare(_: int, plans: int) -> Sequence[Awaitable[object]]:
        return [work_in_thread(plans) for _ in range(lanes.LANES)]

    await lanes.serve(prepare)
    DBOS.destroy()


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
