"""Documents of jobs: whole and in parts, one or several, and regenerated."""

import json
from typing import Any

import pytest

from decisions import decision
from run_documents import a_run_of_three_steps, available, kept, pages, render_all
from waybook.dag.progress.invariants import check
from waybook.run.model import MAX_PARTS
from worlds import Agent, Body, World


@pytest.fixture
async def run(agent: Agent) -> Body:
    return await a_run_of_three_steps(agent)


# Several documents of one job


async def test_one_text_is_all_the_documents_it_can_be(
    world: World, agent: Agent, run: Body
) -> None:
    job = await agent.job(run)
    assert job["documents"] == [
        {"documentKey": "plan", "modelId": "a"},
        {"documentKey": "plan", "modelId": "b"},
    ]
    done = await agent.hand_in(job, "The plan.")
    assert len(done["documentIds"]) == 2
    told = [("plan", "a", 1, "The plan."), ("plan", "b", 1, "The plan.")]
    assert await kept(world, agent) == told


async def test_each_document_may_have_its_own_text(world: World, agent: Agent, run: Body) -> None:
    job = await agent.job(run)
    texts = [{"modelId": m, "content": f"For {m}."} for m in "ba"]
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("submit_job_result", **held, documents=texts)
    assert {row[1]: row[3] for row in await kept(world, agent)} == {"a": "For a.", "b": "For b."}
    job = await agent.job(run, modelId="b")
    assert [one["content"] for one in job["inputs"]] == ["For b."]


@pytest.mark.parametrize(
    "documents",
    [
        [{"modelId": "a", "content": "x"}],
        [{"modelId": "c", "content": "x"}],
        [{"documentKey": "text", "content": "x"}],
        [{"content": "x"}, {"modelId": "a", "content": "y"}],
        [],
        [{"modelId": "a"}],
        [{"modelId": "a", "content": "x", "colour": "red"}],
    ],
    ids=json.dumps,
)
async def test_what_is_handed_in_must_be_what_the_job_makes(
    agent: Agent, run: Body, documents: list[Body]
) -> None:
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    error = await agent.refused("submit_job_result", **held, documents=documents)
    assert error["code"] == "INVALID_INPUT"
    both = {"content": "x", "documents": [{"content": "x"}]}
    assert (await agent.refused("submit_job_result", **held, **both))["code"] == "INVALID_INPUT"
    await agent.hand_in(job)


async def test_a_structure_is_kept_as_its_json(world: World, agent: Agent, run: Body) -> None:
    told = {"title": "Ä plan", "steps": [1, {"two": None}]}
    await agent.hand_in(await agent.job(run), told)
    assert json.loads((await kept(world, agent))[0][3]) == told


# In parts


@decision("B5")
async def test_parts_become_one_document_and_the_unit_is_done_when_the_last_is(
    world: World, agent: Agent, run: Body
) -> None:
    await agent.hand_in(await agent.job(run))
    parts = ["# One\n", "two ☃\n", "three"]
    job = await agent.job(run, modelId="a")
    for number, part in enumerate(parts[:-1], 1):
        done = await agent.hand_in(job, part, continues=True)
        assert done["documentIds"] == []
        following = await agent.job(run, modelId="a")
        assert following["jobId"] == done["continuation"]["jobId"] != job["jobId"]
        assert following["soFar"] == "".join(parts[:number])
        step = (await agent.progress(run))["stages"][0]["steps"][1]
        assert step["jobs"] == {"done": 0, "active": 2, "failed": 0}
        job = following
    await agent.hand_in(job, parts[-1])
    assert [row for row in await kept(world, agent) if row[0] == "text"] == [
        ("text", "a", 1, "# One\ntwo ☃\nthree")
    ]
    assert (await agent.work_off(run))["status"] == "run_complete"


async def test_a_unit_has_so_many_parts_and_no_more(agent: Agent, run: Body) -> None:
    await agent.hand_in(await agent.job(run))
    job = await agent.job(run, modelId="a")
    for _ in range(MAX_PARTS - 1):
        await agent.hand_in(job, "x", continues=True)
        job = await agent.job(run, modelId="a")
    held = {"jobId": job["jobId"], "attempt": job["attempt"], "content": "x"}
    error = await agent.refused("submit_job_result", **held, continues=True)
    assert (error["code"], error["details"]["limit"]) == ("TOO_LARGE", MAX_PARTS)
    await agent.hand_in(job, "the last")


async def test_a_part_is_one_text(agent: Agent, run: Body) -> None:
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"], "continues": True}
    texts = [{"modelId": m, "content": "x"} for m in "ab"]
    error = await agent.refused("submit_job_result", **held, documents=texts)
    assert error["code"] == "INVALID_INPUT"


async def test_a_part_that_fails_for_good_fails_its_unit_and_comes_back_with_it(
    world: World, agent: Agent, run: Body
) -> None:
    await agent.hand_in(await agent.job(run))
    await agent.hand_in(await agent.job(run, modelId="a"), "one ", continues=True)
    part = await agent.job(run, modelId="a")
    held = {"jobId": part["jobId"], "attempt": part["attempt"]}
    await agent.call("fail_job", **held, error="No.", retryable=False)
    assert (await agent.progress(run))["stages"][0]["steps"][1]["jobs"]["failed"] == 1
    await agent.call("retry_failed", runId=run["runId"], stageSlug="work")
    again = await agent.job(run, modelId="a")
    assert (again["jobId"], again["soFar"]) == (part["jobId"], "one ")
    await agent.hand_in(again, "two")
    assert (await kept(world, agent))[-1][3] == "one two"


# Regeneration


@decision("B6")
async def test_a_document_of_a_closed_step_is_written_anew_and_progress_stays(
    world: World, agent: Agent, run: Body
) -> None:
    assert (await agent.work_off(run))["status"] == "run_complete"
    await render_all(agent)
    before: Any = await agent.progress(run, detail=True)
    first = await available(agent, run)
    asked = "select id::text from document where document_key = 'text' and model = 'b'"
    ((document_id,),) = (await world.database.read_org(agent.org_id, asked))[0]
    fresh = await agent.call("regenerate_document", documentId=document_id)
    assert await agent.progress(run, detail=True) == before
    job = await agent.job(run)
    assert (job["jobId"], job["previousVersion"]) == (fresh["jobId"], "# Found")
    await agent.hand_in(job, "# Anew")
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


@decision("B1")
async def test_a_document_of_an_open_step_is_written_anew_before_the_step_closes(
    agent: Agent, run: Body
) -> None:
    await agent.hand_in(await agent.job(run))
    done = await agent.hand_in(await agent.job(run, modelId="a"))
    before: Any = await agent.progress(run)
    await agent.call("regenerate_document", documentId=done["documentIds"][0])
    await agent.hand_in(await agent.job(run, modelId="b"))
    between: Any = await agent.progress(run)
    assert check(between, before) == []
    assert between["stages"][0]["progress"] == before["stages"][0]["progress"]
    assert between["stages"][0]["steps"][1]["status"] == "in_progress"
    job = await agent.job(run)
    assert (job["stepKey"], job["modelId"]) == ("text", "a")
    done = await agent.hand_in(job, "# Anew")
    assert done["stage"]["progress"]["completedSteps"] == 2
    job = await agent.job(run)
    assert {one["content"] for one in job["inputs"]} == {"# Found", "# Anew"}


async def test_whoever_comes_later_works_from_the_latest_version(
    world: World, agent: Agent, run: Body
) -> None:
    done = await agent.hand_in(await agent.job(run), "First.")
    await agent.call("regenerate_document", documentId=done["documentIds"][1])
    anew = await agent.job(run, jobTypes=["PLAN"])
    await agent.hand_in(anew, "Second.")
    job = await agent.job(run, modelId="a")
    assert [one["content"] for one in job["inputs"]] == ["Second."]
    versions = [(row[1], row[2]) for row in await kept(world, agent)]
    assert versions == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


async def test_a_document_on_its_way_anew_is_not_asked_for_again(agent: Agent, run: Body) -> None:
    done = await agent.hand_in(await agent.job(run))
    named = {"documentId": done["documentIds"][0]}
    await agent.call("regenerate_document", **named)
    error = await agent.refused("regenerate_document", **named)
    assert (error["code"], error["details"]["from"]) == ("INVALID_TRANSITION", "superseded")
    again = await agent.hand_in(await agent.job(run, jobTypes=["PLAN"]), "Second.")
    third = await agent.call("regenerate_document", **named)
    assert third["jobId"] != again["jobId"]


async def test_a_rewrite_that_fails_leaves_the_closed_step_as_it_is(
    agent: Agent, run: Body
) -> None:
    await agent.work_off(run)
    before = await agent.progress(run)
    documents = await agent.call("get_run_progress", runId=run["runId"], detail=True)
    assert documents["dagProgress"]["completedStages"] == 1
    asked = "select id::text from document where document_key = 'whole'"
    ((document_id,),) = (await agent.doorway.house.database.read_org(agent.org_id, asked))[0]
    await agent.call("regenerate_document", documentId=document_id)
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("fail_job", **held, error="No.", retryable=False)
    assert await agent.progress(run) == before
    assert (await agent.call("get_next_job", runId=run["runId"]))["status"] == "run_complete"
    retried = await agent.call("retry_failed", runId=run["runId"], stageSlug="work")
    assert retried["retried"] == 1
    await agent.hand_in(await agent.job(run), "At last.")
