"""One agent creates a plan, claims its steps one by one and submits their results.

Start a server with `waybook serve`, then run:
`python examples/one_agent.py http://127.0.0.1:8750`
A real agent would call its model in place of `think`.
"""
# ruff: noqa: INP001, T201 - an example that is run as a program and prints its progress

import asyncio
import sys
from typing import Any

from waybook import Client

SESSION = "one-agent"

STEPS = [
    {
        "stepType": "search",
        "title": "Find candidates",
        "instructions": "Find queues that run on PostgreSQL.",
    },
    {
        "stepType": "analyze",
        "title": "Compare them",
        "instructions": "Compare price, effort and risk.",
    },
    {
        "stepType": "synthesize",
        "title": "Write it up",
        "instructions": "One page, the decision first.",
    },
]

#: Condition that adds a step if the comparison has a low confidence.
LOW_CONFIDENCE = {
    "afterStepOrder": 2,
    "conditionExpression": "confidence < 0.6",
    "ifTrueAction": "add_steps",
    "actionParams": {
        "steps": [
            {
                "stepType": "critique",
                "title": "Look again",
                "instructions": "Check the weakest number.",
            }
        ]
    },
}


async def think(step: dict[str, Any], context: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Return a result from a script, and its confidence; a real agent would call a model."""
    earlier = len(context["earlierResults"])
    confidence = 0.5 if step["title"] == "Compare them" else 0.9
    return {"did": step["title"], "knowing": earlier}, confidence


async def work_through(client: Client, plan_id: str) -> dict[str, Any]:
    """Claim steps and submit results until no step is ready; return the last reply."""
    while True:
        step = await client.call("get_next_step", planId=plan_id, sessionId=SESSION)
        if step["status"] != "step_ready":
            return step
        context = await client.call("get_step_context", stepId=step["stepId"])
        result, confidence = await think(step, context)
        done = await client.call(
            "submit_step_result",
            stepId=step["stepId"],
            attempt=step["attempt"],
            resultSummary=result,
            confidence=confidence,
            sessionId=SESSION,
            idempotencyKey=f"{step['stepId']}-{step['attempt']}",
        )
        progress = done["progress"]
        print(f"{step['title']}: {progress['done']} of {progress['total']} done")
        for branch in done["branches"]:
            print(f"  {branch['expression']}, so {branch['action']}")


async def main(address: str) -> None:
    """Create a plan and complete all its steps."""
    async with Client(address) as client:
        plan = await client.call(
            "create_research_plan",
            name="Pick a queue",
            researchQuestion="Which queue fits our nightly reports?",
            steps=STEPS,
            branchingConditions=[LOW_CONFIDENCE],
            sessionId=SESSION,
        )
        end = await work_through(client, plan["planId"])
        print(end["status"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8750"))
