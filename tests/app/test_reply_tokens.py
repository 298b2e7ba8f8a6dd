"""Calls and tokens that an agent needs for a plan if it follows the suggested calls."""

import orjson
import pytest

from org_env import AgentClient, Body, OrgEnv
from tokens import count_tokens


class CountingAgent:
    """Agent that counts its calls and the tokens of their replies."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self.calls = 0
        self.tokens = 0

    async def call(self, tool: str, **arguments: object) -> Body:
        reply = await self._agent.call(tool, **arguments)
        self.calls += 1
        self.tokens += count_tokens(orjson.dumps(reply).decode())
        return reply

    async def work_through_plan(self, steps: int) -> Body:
        texts = [
            {
                "stepType": "search",
                "title": f"Part {number}",
                "instructions": f"Find the three longest rivers of continent {number}.",
            }
            for number in range(1, steps + 1)
        ]
        question = {"name": "Rivers", "researchQuestion": "Which river is longest?"}
        reply = await self.call("create_research_plan", **question, steps=texts)
        while reply.get("status") != "plan_complete":
            following = reply["next"]
            words = {"resultSummary": "found"} if "attempt" in following["args"] else {}
            reply = await self.call(following["tool"], **following["args"], **words, sessionId="a")
        return reply


@pytest.mark.parametrize(("steps", "calls", "tokens"), [(5, 7, 950), (13, 17, 5_000)])
async def test_agent_that_follows_suggested_calls_stays_within_token_budget(
    world: OrgEnv, capsys: pytest.CaptureFixture[str], steps: int, calls: int, tokens: int
) -> None:
    agent = CountingAgent(world.agent)
    done = await agent.work_through_plan(steps)
    if steps > 5:
        await agent.call("get_plan_status", planId=done["planId"])
        await agent.call("get_research_context", planId=done["planId"])
    with capsys.disabled():
        print(f"\n{steps} steps: {agent.calls} calls, {agent.tokens} tokens")  # noqa: T201 - figures
    assert agent.calls <= calls
    assert agent.tokens <= tokens
