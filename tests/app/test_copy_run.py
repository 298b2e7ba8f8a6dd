"""Copies of runs by `copy_run`: results of earlier stages are copied, one stage starts again."""

import pytest

from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.background import render_all_orgs


@pytest.fixture
async def original(agent: AgentClient) -> Body:
    """Return a run of three stages, of which two are complete; the second awaits feedback."""
    paper = {"stage": "one", "documentKey": "first"}
    stages = (
        make_stage("one", make_recipe_step("first")),
        make_stage("two", make_recipe_step("second", inputsRequired=[paper])),
        make_stage("three", make_recipe_step("third")),
    )
    await agent.call("add_dag", definition=make_definition("three-stages", *stages))
    run = await agent.run("three-stages")
    while (job := await agent.call("get_next_job", runId=run["runId"]))["status"] == "job_ready":
        await agent.submit_documents(job, f"text of {job['modelId']}")
    await agent.feedback(run, "one", "Look at lakes.")
    await agent.work_off(run)
    return run


async def copy(agent: AgentClient, run: Body, stage: str, **more: object) -> Body:
    return await agent.call("copy_run", runId=run["runId"], fromStage=stage, **more)


async def test_run_copy_restarts_stage_with_documents_of_earlier_stages(
    world: OrgEnv, agent: AgentClient, original: Body
) -> None:
    bob = agent.acting_as("bob")
    made = await copy(bob, original, "two")
    last = len(await world.entries(agent.org_id, original["runId"]))
    assert made["copiedFrom"] == {"runId": original["runId"], "auditSeq": last}
    assert made["name"] == "Rivers (copy)"
    assert [stage["stageSlug"] for stage in made["stages"]] == ["two"]
    progress = await bob.progress(made)
    assert progress["copiedFrom"] == made["copiedFrom"]
    assert [stage["status"] for stage in progress["stages"]] == [
        "completed",
        "in_progress",
        "not_started",
    ]
    assert progress["progress"] == {"percent": 33, "done": 1, "total": 3}
    job = await bob.job(made)
    texts = {job_input["content"] for job_input in job["inputs"]}
    assert {"text of a", "text of b"} & texts
    marked = "select count(*) from document where copied_from is not null"
    assert await world.database.read_org(agent.org_id, marked) == [[(2,)]]


async def test_run_copy_renders_copied_documents_and_can_be_completed(
    agent: AgentClient, original: Body
) -> None:
    made = await copy(agent, original, "two", name="Again", models=["c"])
    while await render_all_orgs(agent.dispatcher.services):
        pass
    first, *_ = (await agent.progress(made, detail=True))["stages"]
    assert first["documentsAvailable"] == 2
    assert (await agent.work_off(made))["status"] == "awaiting_feedback"
    await agent.feedback(made, "two")
    assert (await agent.work_off(made))["status"] == "run_complete"


async def test_run_copy_uses_latest_version_of_regenerated_document(
    world: OrgEnv, agent: AgentClient, original: Body
) -> None:
    query = "select id::text from document where stage_slug = 'one' and model = 'a'"
    ((row,),) = await world.database.read_org(agent.org_id, query)
    await agent.call("regenerate_document", documentId=row[0])
    job = await agent.job(original, modelId="a")
    await agent.submit_documents(job, "second version")
    made = await copy(agent, original, "two")
    query = "select content, version from document where copied_from is not null order by model"
    assert await world.database.read_org(agent.org_id, query) == [
        [("second version", 1), ("text of b", 1)]
    ]
    assert (await agent.job(made))["status"] == "job_ready"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"fromStage": "three"}, "INVALID_TRANSITION", "the stage 'two' before it"),
        ({"fromStage": "four"}, "NOT_FOUND", "no stage 'four'"),
        ({}, "INVALID_INPUT", "fromStage"),
    ],
)
async def test_copying_run_with_invalid_arguments_is_refused(
    agent: AgentClient, original: Body, arguments: Body, code: str, message: str
) -> None:
    error = await agent.refused("copy_run", runId=original["runId"], **arguments)
    assert error["code"] == code
    assert message in error["message"]
