"""Steps that touch the same files are not handed out together."""

import pytest

from org_env import Body, OrgEnv, branch_condition, make_step


def touching(*globs: str, **more: object) -> Body:
    return {**make_step(), "touches": [*globs], **more}


async def test_overlapping_step_waits_until_the_other_step_ends(world: OrgEnv) -> None:
    ann, bob = world.agent, world.agent.elsewhere()
    steps = [touching("src/**", "db:staging"), touching("src/a/*.py"), touching("docs")]
    plan = await ann.plan(steps)
    first = await ann.take(plan)
    assert first["touches"] == ["src/**", "db:staging"]
    third = await bob.take(plan)
    assert third["stepOrder"] == 3
    nothing = await bob.call("get_next_step", planId=plan["planId"], another=True)
    (waiting,) = nothing["blocked"]
    assert waiting["stepOrder"] == 2
    assert waiting["waitsFor"] == {"stepId": first["stepId"], "stepOrder": 1}
    status = await bob.status(plan)
    assert status["pendingSteps"][0]["waitsFor"]["stepOrder"] == 1
    await ann.submit(first)
    second = await bob.take(plan, another=True)
    assert second["stepOrder"] == 2


async def test_step_under_review_keeps_overlapping_steps_waiting(world: OrgEnv) -> None:
    ann, bob = world.agent, world.agent.elsewhere()
    steps = [touching("a"), touching("b", dependsOn=[1]), touching("a/x"), touching("c")]
    plan = await ann.plan(steps)
    await ann.review(await ann.take(plan))
    assert (await bob.take(plan))["stepOrder"] == 4
    await ann.decide(plan)
    assert {(await bob.take(plan, another=True))["stepOrder"] for _ in "12"} == {2, 3}


async def test_copies_repetitions_and_added_steps_keep_touches(world: OrgEnv) -> None:
    agent = world.agent
    added = {"stepType": "custom", "instructions": "Fix.", "touches": ["fix/**"]}
    conditions = [
        branch_condition(1, "true", "add_steps", steps=[added]),
        branch_condition(2, "true", "repeat", max=1),
    ]
    made = await agent.plan(
        [touching("a b", "./c/"), touching("d")], branchingConditions=conditions
    )
    plan = await agent.call("copy_plan", planId=made["planId"])
    await agent.modify(plan, "set_touches", stepId=plan["stepIds"][0], touches=["e"])
    seen = []
    for _ in range(4):
        taken = await agent.take(plan)
        seen.append(taken["touches"])
        await agent.submit(taken)
    assert seen == [["e"], ["fix/**"], ["d"], ["d"]]
    assert (await agent.status(made))["pendingSteps"][0]["touches"] == ["a b", "c"]


@pytest.mark.parametrize("touches", [["../x"], ["a\nb"], ["/"], ["x"] * 21, ["x" * 201]])
async def test_plan_with_invalid_touches_is_refused(world: OrgEnv, touches: list[str]) -> None:
    refused = await world.agent.refused(
        "create_research_plan", name="p", researchQuestion="q", steps=[touching(*touches)]
    )
    assert "touches" in refused["message"]
