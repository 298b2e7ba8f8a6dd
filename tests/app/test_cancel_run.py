"""Effects of `cancel_run` in the database, in replies and in lists."""

import json

import pytest

from org_env import AgentClient, Body, OrgEnv
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.work_export import export_body, read_run_report, read_run_rows
from waybook.app.queries.work_list import OPEN, RunFilter, list_runs
from waybook.app.request.request_context import RequestContext
from waybook.dag.model import RunState

REASON = "The question has changed."


@pytest.fixture
async def run(agent: AgentClient) -> Body:
    await agent.call(
        "add_dag", definition=make_definition("short", make_stage("work", make_recipe_step("do")))
    )
    return await agent.run("short")


async def cancel(agent: AgentClient, run: Body) -> Body:
    return await agent.call("cancel_run", runId=run["runId"], reason=REASON)


async def test_cancel_run_reply_and_audit_name_user_and_reason(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    reply = await cancel(agent.acting_as("bob"), run)
    assert (reply["status"], reply["canceledBy"], reply["reason"]) == ("canceled", "bob", REASON)
    assert reply["openJobs"] == 2
    last = (await world.entries(agent.org_id, run["runId"]))[-1]
    assert (last.actor, json.loads(last.details)["reason"]) == ("bob", REASON)


async def test_get_next_job_for_canceled_run_returns_status_run_canceled(
    agent: AgentClient, run: Body
) -> None:
    await agent.job(run)
    await cancel(agent, run)
    reply = await agent.call("get_next_job", runId=run["runId"])
    assert (reply["status"], reply["reason"]) == ("run_canceled", REASON)
    assert "jobId" not in reply
    progress = await agent.progress(run)
    assert (progress["status"], progress["reason"]) == ("canceled", REASON)
    assert progress["progress"] == {"percent": 0, "done": 0, "total": 1}


async def test_get_next_job_without_run_id_skips_canceled_run(
    agent: AgentClient, run: Body
) -> None:
    other = await agent.run("short")
    held = await agent.call("get_next_job", sessionId="s")
    assert held["runId"] == run["runId"]
    await cancel(agent, run)
    for arguments in ({"sessionId": "s", "modelId": "a"}, {"modelId": "b"}, {"sessionId": "s"}):
        assert (await agent.call("get_next_job", **arguments)).get("runId") == other["runId"]
    await cancel(agent, other)
    assert (await agent.call("get_next_job", sessionId="s"))["status"] == "nothing_ready"


async def test_job_result_and_heartbeat_for_canceled_run_are_refused(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    job = await agent.job(run)
    await cancel(agent, run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    for tool, more in (
        ("submit_job_result", {"documents": [{"content": "late"}]}),
        ("fail_job", {"error": "no", "retryable": True}),
        ("get_job_input", {}),
    ):
        error = await agent.refused(tool, **held, **more)
        assert (error["code"], error["details"]["reason"]) == ("RUN_CANCELED", REASON)
        assert error["next"]["tool"] == "get_run_progress"
    query = "select attempt, content, created_by from late_result"
    assert await world.database.read_org(agent.org_id, query) == [[(1, "late", "ann")]]


async def test_canceled_run_is_closed_in_lists_export_and_report(
    world: OrgEnv, agent: AgentClient, run: Body
) -> None:
    await agent.job(run)
    await cancel(agent, run)
    ctx = RequestContext(services=world.dispatcher.services, caller=agent.caller)
    assert (await list_runs(ctx, RunFilter(state=OPEN)))[0] == []
    (listed,) = (await list_runs(ctx, RunFilter(state="canceled")))[0]
    assert (listed.state, listed.awaiting) == (RunState.CANCELED, None)
    assert (await agent.call("list_dags"))["openRuns"] == []
    detail = await read_run_detail(ctx, run["runId"], RunInclude.ALL)
    assert (detail.is_closed, detail.workers) == (True, ())
    assert f"Canceled by ann, 2030-01-01 12:00 UTC: {REASON}" in await read_run_report(ctx, detail)
    exported = export_body(await read_run_rows(ctx, run["runId"]))["run"]
    assert isinstance(exported, dict)
    assert exported["cancelReason"] == REASON
