"""Program that runs the benchmark's work on Waybook: plans of ten steps, without a transport.

Tool calls go directly to the dispatcher, which executes them. In the variant `together`, the
submission of each step but the last also claims the next one (`takeNext`), as the replies of
Waybook suggest. In the variant `apart`, a separate call claims each step.
"""

import asyncio
import sys
from collections.abc import Awaitable, Sequence

import lanes
from step_cycle import call, create_plans, work_through
from waybook.bootstrap import Application, start_application
from waybook.settings_reading import read_settings


async def work_together(system: Application, session: str, plans: Sequence[object]) -> None:
    """Claim the first step of each plan; each submit also claims the next step."""
    for number, plan in enumerate(plans):
        common: dict[str, object] = {"sessionId": session, "idempotencyKey": f"{session}-{number}"}
        held = await call(system, "get_next_step", {"planId": plan, **common})
        for step in range(lanes.STEPS):
            result: dict[str, object] = {
                "stepId": held["stepId"],
                "attempt": held["attempt"],
                "resultSummary": lanes.RESULT,
                "confidence": 0.8,
                "sessionId": session,
                "idempotencyKey": f"{session}-{number}-{step}",
                "takeNext": step < lanes.STEPS - 1,
            }
            held = await call(system, "submit_step_result", result)
        assert held["planStatus"] == "completed"


async def main(data_dir: str, variant: str) -> None:
    """Open the database, and run the rounds that `run.py` requests."""
    settings = read_settings({"data_dir": data_dir, "pool_size": lanes.LANES}, {}).settings
    work = work_together if variant == "together" else work_through
    async with start_application(settings, sweeping=False) as system:

        async def prepare(turn: int, plans: int) -> Sequence[Awaitable[object]]:
            created = await asyncio.gather(
                *(create_plans(system, plans) for _ in range(lanes.LANES))
            )
            return [work(system, f"{variant}-{turn}-{n}", mine) for n, mine in enumerate(created)]

        await lanes.serve(prepare)


if __name__ == "__main__":
    lanes.run(main(*sys.argv[1:]))
