"""Steps that require sources: replies show how many, and results with fewer are refused."""

import pytest

from org_env import AgentClient, Body, OrgEnv, branch_condition, make_step


async def make_step_with_required_sources(
    agent: AgentClient, schema: Body | None = None
) -> tuple[Body, Body]:
    """Create a plan whose first step requires two sources; return the plan and its claimed step."""
    plan = await agent.plan([make_step(requiredSources=2, resultSchema=schema), make_step()])
    return plan, await agent.take(plan)


async def test_claimed_step_shows_number_of_required_sources(agent: AgentClient) -> None:
    plan, taken = await make_step_with_required_sources(agent)
    assert taken["requiredSources"] == 2
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    assert (context["requiredSources"], context["sourcesStored"]) == (2, 0)
    other = await agent.take(plan, another=True)
    assert "requiredSources" not in other


async def test_result_without_required_sources_is_refused_and_changes_nothing(
    agent: AgentClient,
) -> None:
    plan, taken = await make_step_with_required_sources(agent, {"required": ["river"]})
    before = await agent.status(plan)
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"], "resultSummary": {}}
    error = await agent.refused("submit_step_result", **held, usage={"inputTokens": 1})
    assert error["code"] == "INVALID_INPUT"
    assert error["details"]["sources"] == {"required": 2, "stored": 0, "missing": 2, "counted": []}
    assert [fault["at"] for fault in error["details"]["missing"]] == ["resultSummary"]
    named = {"planId": plan["planId"], "stepId": taken["stepId"]}
    assert (error["next"]["tool"], error["next"]["args"]) == ("store_research", named)
    assert await agent.status(plan) == before


async def test_steps_added_later_can_require_sources(agent: AgentClient) -> None:
    branch = branch_condition(1, "true", "add_steps", steps=[make_step(requiredSources=3)])
    plan = await agent.plan(1, branchingConditions=[branch])
    await agent.modify(plan, "add_steps", steps=[make_step(requiredSources=4)])
    await agent.submit(await agent.take(plan))
    assert [(await agent.take(plan, another=True))["requiredSources"] for _ in range(2)] == [3, 4]


async def test_step_requiring_sources_can_be_removed(agent: AgentClient) -> None:
    plan = await agent.plan([make_step(), make_step(requiredSources=1)])
    reply = await agent.modify(plan, "remove_step", stepId=plan["stepIds"][1])
    assert len(reply["steps"]) == 1


async def test_approved_step_is_completed_even_with_too_few_sources(agent: AgentClient) -> None:
    plan, taken = await make_step_with_required_sources(agent)
    args = {"stepId": taken["stepId"], "summary": "Enough?", "resultSummary": "found"}
    await agent.call("request_user_review", **args)
    await agent.call("submit_user_decision", planId=plan["planId"], decision="approve")
    assert (await agent.status(plan))["counts"]["done"] == 1


@pytest.mark.parametrize("required", [0, -1, 51, 1.5, "many"])
async def test_create_research_plan_refuses_invalid_required_sources(
    agent: AgentClient, required: object
) -> None:
    steps = [make_step(requiredSources=required)]
    args = {"name": "P", "researchQuestion": "Q?", "steps": steps}
    error = await agent.refused("create_research_plan", **args)
    assert error["code"] == "INVALID_INPUT"
    assert "steps.0.requiredSources" in error["message"]


async def stored(agent: AgentClient, taken: Body, *titles: str) -> Body:
    """Store research for a step, with one source for each title."""
    sources = [{"title": title, "url": f"https://example.org/{title}"} for title in titles]
    named = {"stepId": taken["stepId"], "kind": "note", "title": f"On {', '.join(titles)}"}
    return await agent.call("store_research", **named, content="Found.", sources=sources)


async def test_duplicate_source_counts_once_toward_required_sources(agent: AgentClient) -> None:
    plan, taken = await make_step_with_required_sources(agent)
    await stored(agent, taken, "a")
    await stored(agent, taken, "a")
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"], "resultSummary": "found"}
    error = await agent.refused("submit_step_result", **held)
    sources = error["details"]["sources"]
    assert (sources["required"], sources["stored"], sources["missing"]) == (2, 1, 1)
    (counted,) = sources["counted"]
    assert (counted["title"], counted["url"]) == ("a", "https://example.org/a")
    await stored(agent, taken, "a", "b")
    context = await agent.call("get_step_context", stepId=taken["stepId"])
    assert context["sourcesStored"] == 2
    assert (await agent.submit(taken))["stepStatus"] == "completed"
    assert (await agent.status(plan))["counts"]["done"] == 1


async def test_sources_of_other_steps_or_orgs_do_not_count(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan, taken = await make_step_with_required_sources(agent)
    await stored(agent, await agent.take(plan, another=True), "a", "b", "c")
    world.other_org_may_change = True
    theirs = await world.other_org.take(world.other_org_plan)
    await stored(world.other_org, theirs, "a", "b", "c")
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"], "resultSummary": "found"}
    error = await agent.refused("submit_step_result", **held)
    assert error["details"]["sources"]["stored"] == 0


async def test_sources_of_earlier_attempts_count_as_required_sources(agent: AgentClient) -> None:
    plan, taken = await make_step_with_required_sources(agent)
    await stored(agent, taken, "a", "b")
    await agent.modify(plan, "retry_step", stepId=taken["stepId"])
    retaken = await agent.take(plan)
    assert (retaken["stepId"], retaken["attempt"]) == (taken["stepId"], 2)
    assert (await agent.submit(retaken))["stepStatus"] == "completed"
