"""Three agents share one plan; one of them loses its step, and its late result is refused.

Start a server with `waybook serve`, then run:
`python examples/three_agents_one_plan.py http://127.0.0.1:8750`
"""
# ruff: noqa: INP001, T201 - an example that is run as a program and prints its progress

import asyncio
import sys
from collections import Counter
from typing import Any

from waybook import Client, WaybookError

CHAPTERS = 9
# Seconds that a claim waits at most while other agents hold all steps that could be claimed.
WAIT_SECONDS = 55


async def claim(client: Client, plan_id: str, name: str) -> dict[str, Any]:
    """Claim a step in the session of this agent."""
    return await client.call(
        "get_next_step", planId=plan_id, sessionId=name, waitSeconds=WAIT_SECONDS
    )


async def submit(client: Client, step: dict[str, Any], name: str) -> None:
    """Submit a result for the attempt that the agent holds."""
    await client.call(
        "submit_step_result",
        stepId=step["stepId"],
        attempt=step["attempt"],
        resultSummary={"by": name},
        sessionId=name,
        idempotencyKey=f"{name}-{step['stepId']}-{step['attempt']}",
    )


async def work(client: Client, plan_id: str, name: str, done: Counter[str]) -> None:
    """Claim and submit steps until the plan is complete."""
    while True:
        step = await claim(client, plan_id, name)
        if step["status"] == "step_ready":
            await submit(client, step, name)
            done[name] += 1
        elif step["status"] == "no_pending_steps":
            await asyncio.sleep(step["retryAfterSeconds"])
        else:
            return


async def claim_and_lose(client: Client, plan_id: str) -> dict[str, Any]:
    """Claim a step as agent cleo, retry it as agent ada, and return cleo's claim, now outdated."""
    step = await claim(client, plan_id, "cleo")
    await client.call(
        "modify_plan",
        planId=plan_id,
        modifications=[{"action": "retry_step", "stepId": step["stepId"]}],
        modificationRationale="cleo is inactive",
        sessionId="ada",
    )
    return step


async def main(address: str) -> None:
    """Create a plan of nine steps and let three agents complete it."""
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
        lost = await claim_and_lose(client, plan_id)
        try:
            await submit(client, lost, "cleo")
        except WaybookError as refused:
            print(f"cleo comes back too late: {refused.code}")
        names = ("ada", "ben", "cleo")
        await asyncio.gather(*(work(client, plan_id, name, done) for name in names))
        status = await client.call("get_plan_status", planId=plan_id)
        print(f"{status['counts']['done']} of {status['counts']['total']} done, {status['status']}")
        print(f"{done.total()} steps in {len(done)} hands, none of them twice")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8750"))
