"""Plan budgets: usage over the budget is reported, but calls are not refused."""

import json

import pytest

from org_env import AgentClient


async def test_replies_show_the_budget_and_warn_above_the_limit(agent: AgentClient) -> None:
    plan = await agent.plan(4, budget=json.dumps({"tokens": 100, "costUsd": 2}))
    percentages, last = [], {}
    for tokens in (50, 40, 60):
        taken = await agent.take(plan)
        reply = await agent.submit(taken, usage={"inputTokens": tokens, "costUsd": 0.1})
        percentages.append(
            (taken["budget"]["tokens"]["percent"], reply["budget"]["tokens"]["percent"])
        )
        last = reply["budget"]
    assert percentages == [(0, 50), (50, 90), (90, 150)]
    assert last["costUsd"] == {"used": 0.3, "of": 2.0, "percent": 15}
    assert last["warning"].startswith("The plan is over its budget of tokens (150 %)")
    assert (await agent.status(plan))["budget"] == last
    taken = await agent.take(plan)
    assert taken["budget"] == last
    await agent.submit(taken)
    assert (await agent.call("get_next_step", planId=plan["planId"]))["budget"] == last


async def test_replies_contain_no_budget_for_plan_without_budget(agent: AgentClient) -> None:
    plan = await agent.plan(2)
    taken = await agent.take(plan)
    reply = await agent.submit(taken, usage={"inputTokens": 10**9})
    status = await agent.status(plan)
    assert all("budget" not in payload for payload in (taken, reply, status))


@pytest.mark.parametrize(
    "budget",
    [{"tokens": 0}, {"tokens": 1.5}, {"costUsd": 0}, {"costUsd": -1}, {"euros": 3}, [5], 7],
    ids=str,
)
async def test_create_plan_with_malformed_budget_returns_invalid_input(
    agent: AgentClient, budget: object
) -> None:
    steps = [{"stepType": "search", "instructions": "Look."}]
    args = {"name": "P", "researchQuestion": "Q?", "steps": steps}
    error = await agent.refused("create_research_plan", **args, budget=budget)
    assert error["code"] == "INVALID_INPUT"
    assert error["message"].startswith("budget"), error
