"""Driver of Waybook: a plan of ten steps, through the dispatcher and without a transport."""

import asyncio
import sys
from collections.abc import Awaitable, Sequence

import lanes
from step_cycle import create_plans, work_through
from waybook.bootstrap import start_application
from waybook.settings_reading import read_settings


async def main(data_dir: str) -> None:
    """Open the database, and carry out the rounds."""
    settings = read_settings({"data_dir": data_dir, "pool_size": lanes.LANES}, {}).settings
    async with start_application(settings, sweeping=False) as system:

        async def prepare(turn: int, plans: int) -> Sequence[Awaitable[object]]:
            created = await asyncio.gather(
                *(create_plans(system, plans) for _ in range(lanes.LANES))
            )
            return [work_through(system, f"{turn}-{n}", mine) for n, mine in enumerate(created)]

        await lanes.serve(prepare)


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
