"""Users with the same session name never get the same step or job."""

import pytest

from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage

ID_OF = {"get_next_step": "stepId", "get_next_job": "jobId"}


async def make_wide_run(agent: AgentClient) -> Body:
    """Start a run of six jobs without dependencies."""
    stage = make_stage("only", make_recipe_step("one"), make_recipe_step("two"))
    await agent.call("add_dag", definition=make_definition("wide", stage))
    return await agent.run("wide", "abc")


async def test_users_with_same_session_name_get_different_jobs(
    agent: AgentClient,
) -> None:
    await make_wide_run(agent)
    first = await agent.call("get_next_job", sessionId="main")
    second = await agent.acting_as("bob").call("get_next_job", sessionId="main")
    assert second["jobId"] != first["jobId"]


@pytest.mark.parametrize("tool", ID_OF)
async def test_users_with_same_idempotency_key_get_different_steps_or_jobs(
    agent: AgentClient, tool: str
) -> None:
    plan, run = await agent.plan(), await make_wide_run(agent)
    where = {"planId": plan["planId"]} if tool == "get_next_step" else {"runId": run["runId"]}
    args = {**where, "sessionId": "main", "idempotencyKey": "1"}
    taken = await agent.call(tool, **args)
    other = await agent.acting_as("bob").call(tool, **args)
    assert other[ID_OF[tool]] != taken[ID_OF[tool]]
    for user, first in ((agent, taken), (agent.acting_as("bob"), other)):
        again = await user.call(tool, **args)
        assert again["replayed"]
        assert again[ID_OF[tool]] == first[ID_OF[tool]]


async def test_new_plan_does_not_refer_to_skill_of_another_user(
    world: OrgEnv, agent: AgentClient
) -> None:
    started = await agent.call("start_skill", name="survey", sessionId="main")
    mine = await agent.plan(sessionId="main")
    other = await agent.acting_as("bob").plan(sessionId="main")
    stored = [await world.stored(agent.org_id, plan["planId"]) for plan in (mine, other)]
    linked = [next(iter(rows["plan"].values()))["skill_execution_id"] for rows in stored]
    assert linked == [started["skillExecutionId"], None]
