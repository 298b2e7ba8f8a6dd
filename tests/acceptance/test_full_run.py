"""Complete runs, from the first job to the last document, with as many jobs as expected."""

from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv
from report_invariants import check
from run_documents import render_all


def promised(n: int) -> list[int]:
    """Return the expected number of jobs of each of the five stages, if each has `n` models."""
    return [4 * n + 1, 7 * n**2, 4 * n**3 + 4 * n + 5, 3 * n + 1, 3 * n + 1]


async def expected(agent: AgentClient, **named: object) -> list[int]:
    reply = await agent.call("get_dag_map", **named)
    return [stage["expected"]["total"] for stage in reply["stages"]]


async def jobs_made(world: OrgEnv, run: Body) -> dict[str, int]:
    query = f"""select stage_slug, count(*) from job
                 where run_id = '{run["runId"]}' and job_type <> 'RENDER' group by 1"""  # noqa: S608 - id from a row
    return dict((await world.database.read_org(world.agent.org_id, query))[0])


async def worked_through(agent: AgentClient, run: Body) -> list[str]:
    """Complete every job; check each progress report; return the stages that awaited feedback."""
    before: Any = None
    stages: list[str] = []
    while True:
        reply = await agent.call("get_next_job", runId=run["runId"])
        report: Any = await agent.progress(run, detail=True)
        assert check(report, before) == []
        assert report == await agent.progress(run, detail=True)
        before = report
        if reply["status"] == "job_ready":
            await agent.submit_documents(
                reply, f"# {reply['stepName']}\n\nBy *{reply['modelId']}*."
            )
        elif reply["status"] == "awaiting_feedback":
            stages.append(reply["stageSlug"])
            await agent.feedback(run, reply["stageSlug"], "Go on.")
        else:
            assert reply["status"] == "run_complete"
            return stages


async def make_dialectic(world: OrgEnv, n: int) -> None:
    agent, models = world.agent, [f"model-{number}" for number in range(n)]
    assert await expected(agent, dagSlug="dialectic", models=models) == promised(n)
    run = await agent.run("dialectic", models, input="Build a lighthouse.")
    stages = ["thesis", "antithesis", "synthesis", "parenthesis"]
    assert await worked_through(agent, run) == stages
    assert await expected(agent, runId=run["runId"]) == promised(n)
    made = await jobs_made(world, run)
    report: Any = await agent.progress(run, detail=True)
    assert [made[stage["stageSlug"]] for stage in report["stages"]] == promised(n)
    done = [sum(s["jobs"]["done"] for s in stage["steps"]) for stage in report["stages"]]
    assert done == promised(n)
    assert report["dagProgress"] == {"completedStages": 5, "totalStages": 5}
    await check_documents(agent, run, report)


async def check_documents(agent: AgentClient, run: Body, before: Any) -> None:  # noqa: ANN401 - a report
    """Render all documents; check that nothing else in the progress report changes."""
    wanted = sum(stage["documentsExpected"] for stage in before["stages"])
    assert await render_all(agent) == wanted - sum(
        stage["documentsAvailable"] for stage in before["stages"]
    )
    after: Any = await agent.progress(run, detail=True)
    assert check(after, before) == []
    for was, stage in zip(before["stages"], after["stages"], strict=True):
        assert stage["documentsAvailable"] == stage["documentsExpected"] == len(stage["documents"])
        changed = {"documents", "documentsAvailable"}
        assert {k: v for k, v in stage.items() if k not in changed} == {
            k: v for k, v in was.items() if k not in changed
        }


@pytest.mark.parametrize("n", [1, 2, 3])
async def test_dialectic_run_creates_as_many_jobs_as_the_map_shows(world: OrgEnv, n: int) -> None:
    await make_dialectic(world, n)


async def test_job_counts_match_the_map_after_feedback_changes_the_models(
    world: OrgEnv, agent: AgentClient
) -> None:
    run = await agent.run("dialectic", ["a", "b"], input="Build a lighthouse.")
    chosen = iter([["c"], ["a", "c", "d"], ["d"], ["e", "a"]])
    while True:
        reply = await agent.work_off(run)
        if reply["status"] == "run_complete":
            break
        await agent.feedback(run, reply["stageSlug"], models=next(chosen))
    made = await jobs_made(world, run)
    report = await agent.progress(run)
    job_counts = [made[stage["stageSlug"]] for stage in report["stages"]]
    assert job_counts == await expected(agent, runId=run["runId"])
    assert [stage["modelCount"] for stage in report["stages"]] == [2, 1, 3, 1, 2]


@pytest.mark.parametrize("n", [1, 3])
async def test_run_of_deep_research_workflow_completes(
    world: OrgEnv, agent: AgentClient, n: int
) -> None:
    models = [f"model-{number}" for number in range(n)]
    run = await agent.run("deep-research", models, input={"question": "Which lake is deepest?"})
    assert await expected(agent, runId=run["runId"]) == [1, 2 * n, 1]
    assert await worked_through(agent, run) == ["scope", "gather"]
    assert await jobs_made(world, run) == {"scope": 1, "gather": 2 * n, "synthesis": 1}
    report: Any = await agent.progress(run, detail=True)
    await check_documents(agent, run, report)
