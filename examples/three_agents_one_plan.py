"""Three agents share one plan; one of them is slow, loses its step, and does no harm.

Start a server with `waybook serve`, then:
`python examples/three_agents_one_plan.py http://127.0.0.1:8750`
"""
# ruff: noqa: INP001, T201 - an example to read and to run; it prints what happens

import asyncio
import sys
from collections import Counter
from typing import Any

from waybook import Client, WaybookError

CHAPTERS = 9
WAIT = 0.05  # seconds before asking again while others still work


async def take(client: Client, plan_id: str, name: str) -> dict[str, Any]:
    """Ask for a step; the session's name keeps the agents apart."""
    return await client.call("get_next_step", planId=plan_id, sessionId=name)


async def hand_in(client: Client, step: dict[str, Any], name: str) -> None:
    """Submit a result for the attempt that we hold."""
    await client.call(
        "submit_step_result",
        stepId=step["stepId"],
        attempt=step["attempt"],
        resultSummary={"by": name},
        sessionId=name,
        idempotencyKey=f"{name}-{step['stepId']}-{step['attempt']}",
    )


async def work(client: Client, plan_id: str, name: str, done: Counter[str]) -> None:
    """Take steps until the plan is over."""
    while True:
        step = await take(client, plan_id, name)
        if step["status"] == "step_ready":
            await hand_in(client, step, name)
            done[name] += 1
        elif step["status"] == "no_pending_steps":
            await asyncio.sleep(WAIT)
        else:
            return


async def sleep_over_it(client: Client, plan_id: str) -> dict[str, Any]:
    """Take a step and fall silent; somebody else gives it back for anyone to try."""
    step = await take(client, plan_id, "cleo")
    await client.call(
        "modify_plan",
        planId=plan_id,
        modifications=[{"action": "retry_step", "stepId": step["stepId"]}],
        modificationRationale="cleo has not been heard of",
        sessionId="ada",
    )
    return step


async def main(address: str) -> None:
    """Read nine chapters, three at a time."""
    async with Client(address) as client:
        plan = await client.call(
            "create_research_plan",
            name="Read the handbook",
            researchQuestion="What does the handbook say about nights?",
            steps=[
                {"stepType": "extract", "title": f"Chapter {n}", "instructions": f"Read {n}."}
                for n in range(1, CHAPTERS + 1)
            ],
        )
        plan_id, done = plan["planId"], Counter[str]()
        lost = await sleep_over_it(client, plan_id)
        try:
            await hand_in(client, lost, "cleo")
        except WaybookError as refused:
            print(f"cleo comes back too late: {refused.code}")
        names = ("ada", "ben", "cleo")
        await asyncio.gather(*(work(client, plan_id, name, done) for name in names))
        status = await client.call("get_plan_status", planId=plan_id)
        print(f"{status['counts']['done']} of {status['counts']['total']} done, {status['status']}")
        print(f"{done.total()} steps in {len(done)} hands, none of them twice")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8750"))
