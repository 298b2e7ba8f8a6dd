"""An agent of the OpenAI Agents SDK works through a plan.

Install openai-agents, start a server with `waybook serve`, create a plan, and run
`python openai_agents_agent.py http://127.0.0.1:8750 PLAN_ID gpt-5`
"""
# ruff: noqa: INP001, T201 - an example that is run as a program and prints its progress

import asyncio
import json
import sys

from agents import Agent, Model, RunConfig, RunContextWrapper, Runner, function_tool
from pydantic import BaseModel

from waybook.client import Client, Step


class Finding(BaseModel):
    """Answer of the agent, which becomes the result of the step."""

    result: str
    confidence: float


@function_tool
async def earlier_results(run: RunContextWrapper[Step]) -> str:
    """Return the results of earlier steps, which are part of the step's context."""
    context = await run.context.context()
    return json.dumps(context.get("earlierResults", []))


def build_agent(model: Model | str) -> Agent[Step]:
    """Return an agent whose context is the step, and whose answer is a finding."""
    return Agent[Step](
        name="Worker",
        instructions="Do the step of the plan. Read earlier results if you need them.",
        model=model,
        tools=[earlier_results],
        output_type=Finding,
    )


async def work_through(
    client: Client, plan_id: str, agent: Agent[Step], config: RunConfig | None = None
) -> None:
    """Let the agent do one step after the other until the plan is complete."""
    async for step in client.steps(plan_id):
        async with step:
            answer = await Runner.run(agent, step.instructions, context=step, run_config=config)
            finding = answer.final_output_as(Finding)
            done = await step.submit(finding.result, confidence=finding.confidence)
            print(f"step {step.order}: {done['progress']['done']} done, {done['planStatus']}")


async def main(address: str, plan_id: str, model: str) -> None:
    """Work through a plan; after a crash, the same command continues with the interrupted step."""
    async with Client(address, session_id=f"openai-agents-{plan_id}") as client:
        await work_through(client, plan_id, build_agent(model))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
