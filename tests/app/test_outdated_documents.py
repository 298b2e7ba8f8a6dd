"""Documents made from outdated versions of other documents can be regenerated."""

from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv
from run_documents import available, make_run_of_three_steps, render_all, stored_documents


@pytest.fixture
async def run(world: OrgEnv, agent: AgentClient) -> Body:
    """Return a complete run of three steps: plan, write a text for each plan, combine the texts."""
    run = await make_run_of_three_steps(agent)
    await agent.work_off(run)
    await render_all(agent)
    world.clock.advance(seconds=1)
    return run


async def outdated(agent: AgentClient, run: Body) -> set[tuple[str, str]]:
    """Return the key and model of each document that the progress report marks as outdated."""
    stages: Any = (await agent.progress(run, detail=True))["stages"]
    return {
        (document["documentKey"], document["modelId"])
        for stage in stages
        for document in stage["documents"]
        if document.get("outdated")
    }


InputVersions = list[tuple[str, str, int, int | None]]


async def made_from(agent: AgentClient, run: Body, key: str, model: str = "a") -> InputVersions:
    resource_id = (await available(agent, run))[key, model]
    document = await agent.dispatcher.read_document(agent.caller, resource_id)
    inputs: Any = document.made_from
    return [
        (item["documentKey"], item["modelId"], item["version"], item.get("newerVersion"))
        for item in inputs
    ]


async def plan_id(world: OrgEnv, agent: AgentClient) -> str:
    query = "select id::text from document where document_key = 'plan' and model = 'a'"
    ((document_id,), *_) = (await world.database.read_org(agent.org_id, query))[0]
    return str(document_id)


async def test_document_shows_input_versions_that_the_job_read(
    agent: AgentClient, run: Body
) -> None:
    assert await made_from(agent, run, "text") == [("plan", "a", 1, None)]
    assert await made_from(agent, run, "whole") == [("text", "a", 1, None), ("text", "b", 1, None)]
    assert await outdated(agent, run) == set()


async def test_document_is_outdated_until_regenerated_from_newer_input(
    agent: AgentClient, run: Body
) -> None:
    await agent.call("regenerate_document", documentId=(await available(agent, run))["text", "a"])
    assert await outdated(agent, run) == set()
    await agent.submit_documents(await agent.job(run), "# Anew")
    assert await outdated(agent, run) == {("whole", "a")}
    assert await made_from(agent, run, "whole") == [("text", "a", 1, 2), ("text", "b", 1, None)]
    combined = (await available(agent, run))["whole", "a"]
    await agent.call("regenerate_document", documentId=combined)
    job = await agent.job(run)
    assert {item["content"] for item in job["inputs"]} == {"# Found", "# Anew"}
    await agent.submit_documents(job, "# All anew")
    await render_all(agent)
    assert await outdated(agent, run) == set()
    assert await made_from(agent, run, "whole") == [("text", "a", 2, None), ("text", "b", 1, None)]


async def test_outdated_documents_are_regenerated_in_step_order(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    first = await plan_id(world, agent)
    reply = await agent.call("regenerate_document", documentId=first, following=True)
    assert reply["following"] == 3
    plan = await agent.job(run)
    assert (plan["jobId"], plan["stepKey"]) == (reply["jobId"], "plan")
    other = agent.acting_as("ben")
    assert (await other.call("get_next_job", runId=run["runId"]))["status"] == "nothing_ready"
    await agent.submit_documents(plan, "Second.")
    texts = [await agent.job(run), await other.job(run)]
    assert [job["stepKey"] for job in texts] == ["text", "text"]
    assert [item["content"] for job in texts for item in job["inputs"]] == ["Second."] * 2
    for number, job in enumerate(texts):
        assert (await other.call("get_next_job", runId=run["runId"]))["status"] == "nothing_ready"
        await agent.submit_documents(job, f"Text {number}.")
    combined = await other.job(run)
    assert {item["content"] for item in combined["inputs"]} == {"Text 0.", "Text 1."}
    done = await other.submit_documents(combined, "Whole.", takeNext=True)
    assert done["status"] == "run_complete"
    versions = [row[:3] for row in await stored_documents(world, agent)]
    assert len(versions) == 10
    assert {version for _, _, version in versions} == {1, 2}
    await render_all(agent)
    assert await outdated(agent, run) == set()


async def test_regeneration_waits_while_an_earlier_regeneration_is_retried(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    named = {"documentId": await plan_id(world, agent), "following": True}
    await agent.call("regenerate_document", **named)
    plan = await agent.job(run)
    failed = {"jobId": plan["jobId"], "attempt": plan["attempt"], "retryable": True}
    await agent.call("fail_job", **failed, error="Late.")
    waiting = await agent.call("get_next_job", runId=run["runId"])
    assert waiting["status"] == "nothing_ready"
    assert waiting["retryAfterSeconds"] == 5
    world.clock.advance(minutes=10)
    assert (await agent.job(run))["jobId"] == plan["jobId"]


async def test_regeneration_continues_after_an_earlier_regeneration_failed(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    named = {"documentId": await plan_id(world, agent), "following": True}
    await agent.call("regenerate_document", **named)
    plan = await agent.job(run)
    failed = {"jobId": plan["jobId"], "attempt": plan["attempt"], "retryable": False}
    await agent.call("fail_job", **failed, error="No.")
    assert (await agent.job(run))["stepKey"] == "text"


async def test_claimed_job_keeps_old_versions_of_regenerated_inputs(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    documents = await available(agent, run)
    await agent.call("regenerate_document", documentId=documents["whole", "a"])
    combined = await agent.job(run)
    world.clock.advance(seconds=1)
    await agent.call("regenerate_document", documentId=documents["text", "a"])
    await agent.submit_documents(await agent.job(run), "# Anew")
    listed: Any = await agent.call("get_job_input", jobId=combined["jobId"])
    before = {item["documentId"] for item in combined["inputs"]}
    assert {item["documentId"] for item in listed["inputs"]} == before
    await agent.submit_documents(combined, "# From the old text")
    await render_all(agent)
    assert await outdated(agent, run) == {("whole", "a")}
    assert await made_from(agent, run, "whole") == [("text", "a", 1, 2), ("text", "b", 1, None)]


async def test_documents_of_other_lineages_are_not_regenerated(
    agent: AgentClient, run: Body
) -> None:
    text = (await available(agent, run))["text", "a"]
    reply = await agent.call("regenerate_document", documentId=text, following=True)
    assert reply["following"] == 1
    assert (await agent.job(run))["modelId"] == "a"
