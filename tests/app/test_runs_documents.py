"""Documents of jobs: submitted whole or in parts, one or several per job, and regenerated."""

import json
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv
from report_invariants import check
from run_documents import available, make_run_of_three_steps, pages, render_all, stored_documents


@pytest.fixture
async def run(agent: AgentClient) -> Body:
    return await make_run_of_three_steps(agent)


async def test_content_without_document_key_is_stored_for_every_document(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    job = await agent.job(run)
    assert job["documents"] == [
        {"documentKey": "plan", "modelId": "a"},
        {"documentKey": "plan", "modelId": "b"},
    ]
    done = await agent.submit_documents(job, "The plan.")
    assert len(done["documentIds"]) == 2
    expected = [("plan", "a", 1, "The plan."), ("plan", "b", 1, "The plan.")]
    assert await stored_documents(world, agent) == expected


async def test_submit_job_result_accepts_separate_content_per_document(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    job = await agent.job(run)
    texts = [{"modelId": m, "content": f"For {m}."} for m in "ba"]
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("submit_job_result", **held, documents=texts)
    assert {row[1]: row[3] for row in await stored_documents(world, agent)} == {
        "a": "For a.",
        "b": "For b.",
    }
    job = await agent.job(run, modelId="b")
    assert [job_input["content"] for job_input in job["inputs"]] == ["For b."]


@pytest.mark.parametrize(
    "documents",
    [
        [{"modelId": "a", "content": "x"}],
        [{"modelId": "a"}],
        [{"modelId": "a", "content": "x", "colour": "red"}],
    ],
    ids=json.dumps,
)
async def test_submit_job_result_refuses_unexpected_documents(
    agent: AgentClient, run: Body, documents: list[Body]
) -> None:
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    error = await agent.refused("submit_job_result", **held, documents=documents)
    assert error["code"] == "INVALID_INPUT"
    await agent.submit_documents(job)


async def test_structured_content_of_job_result_is_stored_as_json(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    content = {"title": "Ä plan", "steps": [1, {"two": None}]}
    await agent.submit_documents(await agent.job(run), content)
    assert json.loads((await stored_documents(world, agent))[0][3]) == content


async def test_partial_results_become_one_document_after_last_part(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    await agent.submit_documents(await agent.job(run))
    parts = ["# One\n", "two ☃\n", "three"]
    job = await agent.job(run, modelId="a")
    for number, part in enumerate(parts[:-1], 1):
        done = await agent.submit_documents(job, part, continues=True)
        assert done["documentIds"] == []
        following = await agent.job(run, modelId="a")
        assert following["jobId"] == done["continuation"]["jobId"] != job["jobId"]
        assert following["soFar"] == "".join(parts[:number])
        step = (await agent.progress(run))["stages"][0]["steps"][1]
        assert step["jobs"] == {"done": 0, "active": 2, "failed": 0}
        job = following
    await agent.submit_documents(job, parts[-1])
    assert [row for row in await stored_documents(world, agent) if row[0] == "text"] == [
        ("text", "a", 1, "# One\ntwo ☃\nthree")
    ]
    assert (await agent.work_off(run))["status"] == "run_complete"


async def test_regenerating_document_of_closed_step_leaves_progress_unchanged(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    assert (await agent.work_off(run))["status"] == "run_complete"
    await render_all(agent)
    before: Any = await agent.progress(run, detail=True)
    first = await available(agent, run)
    query = "select id::text from document where document_key = 'text' and model = 'b'"
    ((document_id,),) = (await world.database.read_org(agent.org_id, query))[0]
    fresh = await agent.call("regenerate_document", documentId=document_id)
    assert await agent.progress(run, detail=True) == before
    job = await agent.job(run)
    assert (job["jobId"], job["previousVersion"]) == (fresh["jobId"], "# Found")
    await agent.submit_documents(job, "# Anew")
    assert await available(agent, run) == first
    assert await render_all(agent) == 1
    after: Any = await agent.progress(run, detail=True)
    assert check(after, before) == []
    assert after["dagProgress"] == before["dagProgress"]
    assert after["stages"][0]["steps"] == before["stages"][0]["steps"]
    second = await available(agent, run)
    assert {place for place in first if first[place] != second[place]} == {("text", "b")}
    assert [row[2:4] for row in await pages(world, agent) if row[:2] == ("text", "b")] == [
        (1, "# Found"),
        (2, "# Anew"),
    ]


async def test_later_job_reads_latest_version_of_regenerated_document(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    done = await agent.submit_documents(await agent.job(run), "First.")
    await agent.call("regenerate_document", documentId=done["documentIds"][1])
    regenerated = await agent.job(run, jobTypes=["PLAN"])
    await agent.submit_documents(regenerated, "Second.")
    job = await agent.job(run, modelId="a")
    assert [job_input["content"] for job_input in job["inputs"]] == ["Second."]
    versions = [(row[1], row[2]) for row in await stored_documents(world, agent)]
    assert versions == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
