"""Steps with dependencies, tested by tool calls."""

from org_env import OrgEnv, branch_condition


async def test_sequential_plan_hands_out_steps_in_sequence(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan(3, sequential=True)
    claim = {"planId": plan["planId"], "another": True}
    assert (await agent.call("get_plan_status", planId=plan["planId"]))["sequential"] is True
    for order in (1, 2, 3):
        step = await agent.call("get_next_step", **claim)
        assert step["stepOrder"] == order
        if order < 3:
            nothing = await agent.call("get_next_step", **claim)
            assert nothing["status"] == "no_pending_steps"
        await agent.submit(step, "found")
    copied = await agent.call("copy_plan", planId=plan["planId"], upToStep=0)
    await agent.call("get_next_step", planId=copied["planId"])
    nothing = await agent.call("get_next_step", planId=copied["planId"], another=True)
    assert nothing["status"] == "no_pending_steps"


async def test_steps_added_by_a_condition_can_depend_on_each_other(world: OrgEnv) -> None:
    agent = world.agent
    look = {"stepType": "search", "instructions": "Look again."}
    weigh = {"stepType": "analyze", "instructions": "Weigh.", "dependsOn": [2, 4]}
    branch = branch_condition(1, "true", "add_steps", steps=[look, weigh])
    made = await agent.plan(2, branchingConditions=[branch])
    plan = await agent.call("copy_plan", planId=made["planId"])
    await agent.submit(await agent.take(plan), "found")
    status = await agent.call("get_plan_status", planId=plan["planId"])
    added, weighed, old = status["pendingSteps"]
    assert weighed["dependsOn"] == [added["stepId"], old["stepId"]]


async def test_get_dag_map_of_plan_shows_dependencies_as_edges(world: OrgEnv) -> None:
    agent = world.agent
    steps = [
        {"stepType": "search", "instructions": "Look."},
        {"stepType": "search", "instructions": "Look elsewhere."},
        {"stepType": "analyze", "instructions": "Weigh.", "dependsOn": [1, 2]},
    ]
    plan = await agent.call("create_research_plan", name="p", researchQuestion="q", steps=steps)
    drawn = await agent.call("get_dag_map", planId=plan["planId"])
    one, two, three = plan["stepIds"]
    assert drawn["stages"][0]["edges"] == [[one, three], [two, three]]
    assert drawn["stages"][0]["roots"] == [one, two]
