"""A pydantic-ai agent works through a plan; its answers are typed.

Install pydantic-ai, start a server with `waybook serve`, create a plan, and run
`python pydantic_ai_agent.py http://127.0.0.1:8750 PLAN_ID openai:gpt-5`
"""
# ruff: noqa: INP001, T201 - an example that is run as a program and prints its progress

import asyncio
import sys

from pydantic import BaseModel, Field
from pydantic_ai import Agent, RunContext
from pydantic_ai.models import Model

from waybook.client import Client, Step
from waybook.client.replies import JsonValue


class Finding(BaseModel):
    """Answer of the agent, which becomes the result of the step."""

    result: str
    confidence: float = Field(ge=0, le=1)


def build_agent(model: Model | str) -> Agent[Step, Finding]:
    """Return an agent whose dependency is the step, and whose answer is a finding."""
    agent = Agent(
        model,
        deps_type=Step,
        output_type=Finding,
        instructions="Do the step of the plan. Read earlier results if you need them.",
    )

    @agent.tool
    async def earlier_results(run: RunContext[Step]) -> list[dict[str, JsonValue]]:
        """Return the results of earlier steps, which are part of the step's context."""
        return (await run.deps.context()).get("earlierResults", [])

    return agent


async def work_through(client: Client, plan_id: str, agent: Agent[Step, Finding]) -> None:
    """Let the agent do one step after the other until the plan is complete."""
    async for step in client.steps(plan_id):
        async with step:
            answer = await agent.run(step.instructions, deps=step)
            done = await step.submit(
                answer.output.result,
                confidence=answer.output.confidence,
                usage={
                    "inputTokens": answer.usage.input_tokens or 0,
                    "outputTokens": answer.usage.output_tokens or 0,
                },
            )
            print(f"step {step.order}: {done['progress']['done']} done, {done['planStatus']}")


async def main(address: str, plan_id: str, model: str) -> None:
    """Work through a plan; after a crash, the same command continues with the interrupted step."""
    async with Client(address, session_id=f"pydantic-ai-{plan_id}") as client:
        await work_through(client, plan_id, build_agent(model))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
