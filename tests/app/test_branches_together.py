"""Plans with several conditions: a replay of the audit gives the stored rows."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from org_env import AgentClient, Body, make_env, make_step
from postgres_servers import ServerDatabase

STEPS = 5


def make_branch(action: str, *, after: int = 1, holds: bool = True, **params: object) -> Body:
    """Return a condition with this action, which is always true if `holds`, otherwise false."""
    return {
        "afterStepOrder": after,
        "conditionExpression": str(holds).lower(),
        "ifTrueAction": action,
        "actionParams": params,
    }


@st.composite
def branches(draw: st.DrawFn) -> Body:
    action = draw(st.sampled_from(["add_steps", "add_steps", "skip_to", "skip_to", "continue"]))
    params: Body = {}
    if action == "add_steps":
        params["steps"] = [make_step(f"More {n}.") for n in range(draw(st.integers(1, 3)))]
    if action == "skip_to":
        params["targetStepOrder"] = draw(st.integers(3, STEPS))
    after = draw(st.integers(1, 2))
    return make_branch(action, after=after, holds=draw(st.integers(0, 4)) > 0, **params)


async def work_through(agent: AgentClient, plan: Body, *, reviewed: bool) -> None:
    """Complete every step, by submitting its result or by approving its review."""
    while (taken := await agent.call("get_next_step", planId=plan["planId"]))[
        "status"
    ] == "step_ready":
        if not reviewed:
            await agent.submit(taken)
            continue
        args = {"stepId": taken["stepId"], "summary": "Right?", "resultSummary": 1}
        await agent.call("request_user_review", **args)
        await agent.call("submit_user_decision", planId=plan["planId"], decision="approve")
    assert taken["status"] == "plan_complete"


@settings(max_examples=40)
@given(conditions=st.lists(branches(), min_size=1, max_size=6), data=st.data())
def test_replayed_audit_of_plan_with_conditions_gives_the_stored_rows(
    shared_place: ServerDatabase, conditions: list[Body], data: st.DataObject
) -> None:
    reviewed, fails = data.draw(st.booleans()), data.draw(st.booleans())

    async def story() -> None:
        async with make_env(shared_place, pool_size=1) as world:
            plan = await world.agent.plan(STEPS, branchingConditions=conditions)
            await work_through(world.agent, plan, reviewed=reviewed)
            if not fails:
                return
            failing = [*conditions, make_branch("fail", reason="No use.")]
            plan = await world.agent.plan(STEPS, branchingConditions=failing)
            await world.agent.submit(await world.agent.take(plan))
            assert (await world.agent.status(plan))["status"] == "failed"

    asyncio.run(story())
