"""Effects of `copy_plan` in the database, in replies and on pages."""

import pytest

from org_env import AgentClient, Body, OrgEnv, branch_condition, make_step


@pytest.fixture
async def original(agent: AgentClient) -> Body:
    condition = branch_condition(
        3, "confidence < 0.5", "add_steps", steps=[make_step("Check again.")]
    )
    steps = [
        make_step("One.", title="First"),
        make_step("Two.", dependsOn=[1], resultSchema={"type": "object"}),
        make_step("Three.", dependsOn=[2]),
    ]
    plan = await agent.plan(steps, branchingConditions=[condition], budget={"tokens": 10})
    await agent.submit(await agent.take(plan), "first result", confidence=0.8)
    await agent.submit(await agent.take(plan), {"river": "Nile"})
    return plan


async def copy(agent: AgentClient, plan: Body, **more: object) -> Body:
    return await agent.call("copy_plan", planId=plan["planId"], **more)


async def test_replies_about_a_plan_copy_name_the_original(
    world: OrgEnv, agent: AgentClient, original: Body
) -> None:
    bob = agent.acting_as("bob")
    made = await copy(bob, original)
    last = len(await world.entries(agent.org_id, original["planId"]))
    assert made["copiedFrom"] == {"planId": original["planId"], "auditSeq": last}
    assert (made["name"], made["carriedOver"], made["status"]) == ("Rivers (copy)", 2, "executing")
    assert made["firstStep"]["stepOrder"] == 3
    status = await bob.status(made)
    assert status["copiedFrom"] == made["copiedFrom"]
    done = status["completedSteps"]
    assert [step["copiedFromStep"] for step in done] == original["stepIds"][:2]
    assert [step["resultSummary"] for step in done] == ["first result", {"river": "Nile"}]
    assert [step["completedBy"] for step in done] == ["ann", "ann"]
    context = await bob.call("get_research_context", planId=made["planId"])
    assert context["copiedFrom"]["planId"] == original["planId"]
    assert context["steps"][0]["copiedFromStep"] == original["stepIds"][0]


async def test_copied_plan_with_conditions_can_be_completed(
    agent: AgentClient, original: Body
) -> None:
    made = await copy(agent, original)
    taken = await agent.take(made)
    assert taken["stepOrder"] == 3
    done = await agent.submit(taken, "third", confidence=0.1)
    assert done["progress"] == {"percent": 75, "done": 3, "total": 4}
    assert (await agent.work_through(made))["status"] == "plan_complete"
    assert (await agent.status(original))["counts"] == {"done": 2, "total": 3}


async def store(agent: AgentClient, title: str, **more: object) -> Body:
    found = {"kind": "note", "title": title, "content": f"The {title} rises in the mountains."}
    sources = [{"title": f"Atlas of the {title}"}]
    return await agent.call("store_research", **found, sources=sources, **more)


@pytest.mark.parametrize("copies", [1, 2])
async def test_context_of_a_plan_copy_has_research_and_late_results_of_original(
    agent: AgentClient, copies: int
) -> None:
    plan = await agent.plan([make_step("Find the source.", requiredSources=2), make_step()])
    taken = await agent.take(plan)
    of_step = await store(agent, "Nile", stepId=taken["stepId"])
    of_plan = await store(agent, "Congo", planId=plan["planId"])
    await agent.modify(plan, "cancel_plan", reason="enough")
    made = plan
    for _ in range(copies):
        made = await copy(agent, made)
    late = {"stepId": taken["stepId"], "attempt": 1, "resultSummary": "Lake Victoria"}
    error = await agent.refused("submit_step_result", **late)
    assert error["code"] == "PLAN_TERMINAL"

    mine = await agent.take(made)
    context = await agent.call("get_step_context", stepId=mine["stepId"])
    left = [artifact["artifactId"] for artifact in context["soFar"]]
    assert left == [error["details"]["artifactId"], of_step["artifactId"]]
    assert [artifact["artifactId"] for artifact in context["artifacts"]] == [of_plan["artifactId"]]
    whole = await agent.call("get_research_context", planId=made["planId"])
    assert len(whole["artifacts"]) == 3
    more = {"stepId": mine["stepId"], "part": f"artifact:{of_step['artifactId']}"}
    assert "mountains" in (await agent.call("get_step_context", **more))["content"]
    asked = {"query": "mountains", "planId": made["planId"]}
    hits = (await agent.call("search_sources", **asked))["hits"]
    assert {of_step["artifactId"], of_plan["artifactId"]} <= {hit["id"] for hit in hits}

    assert context["sourcesStored"] == 1
    await store(agent, "Volga", stepId=mine["stepId"])
    assert (await agent.submit(mine))["stepStatus"] == "completed"


async def test_context_of_the_original_plan_lacks_research_of_the_copy(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    await store(agent, "Nile", planId=(await copy(agent, plan))["planId"])
    context = await agent.call("get_step_context", stepId=plan["stepIds"][0])
    assert (context["artifacts"], context.get("soFar")) == ([], None)
    asked = {"query": "mountains", "planId": plan["planId"]}
    assert (await agent.call("search_sources", **asked))["hits"] == []


@pytest.mark.parametrize(
    ("arguments", "carried"),
    [({"upToStep": 1, "atAuditSeq": 5}, 1), ({"upToStep": 1, "atAuditSeq": 1}, 0)],
)
async def test_plan_can_be_copied_up_to_step_or_audit_entry(
    agent: AgentClient, original: Body, arguments: Body, carried: int
) -> None:
    assert (await copy(agent, original, **arguments))["carriedOver"] == carried


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"upToStep": 4}, "INVALID_STEP_REFERENCE", "numbered 1 to 3"),
        ({"atAuditSeq": 1_000}, "NOT_FOUND", "no audit entry 1000"),
        ({"atAuditSeq": 2**62}, "NOT_FOUND", "no audit entry"),
        ({"atAuditSeq": 0}, "NOT_FOUND", "no audit entry 0"),
    ],
)
async def test_copy_up_to_unknown_step_or_audit_entry_is_refused(
    agent: AgentClient, original: Body, arguments: Body, code: str, message: str
) -> None:
    error = await agent.refused("copy_plan", planId=original["planId"], **arguments)
    assert error["code"] == code
    assert message in error["message"]
    assert error["next"]["args"]["planId"] == original["planId"]
