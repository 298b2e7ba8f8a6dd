"""Runs on the dashboard: found by name or id, shown on a page, and hidden from other orgs."""

import pytest

from app.test_work_names import looking
from org_env import AgentClient, Body, FakeClock
from waybook.app.queries.runs.run import DocumentListItem, RunInclude, read_run_detail
from waybook.app.queries.runs.run_work import read_document
from waybook.app.queries.work_list import OPEN, RunFilter, RunSummary, list_runs, resolve_run
from waybook.app.request.request_context import RequestContext
from waybook.background import render_all_orgs
from waybook.dag.model import RunState
from waybook.errors import InvalidInput, NotFound


async def find_runs(
    ctx: RequestContext, text: str = "", *, open_only: bool = True
) -> list[RunSummary]:
    return (await list_runs(ctx, RunFilter(text=text, state=OPEN if open_only else None)))[0]


async def documents_of(ctx: RequestContext, run_id: str) -> list[DocumentListItem]:
    return (await read_run_detail(ctx, run_id, RunInclude.DOCUMENTS)).documents


async def rendered(agent: AgentClient) -> None:
    while await render_all_orgs(agent.dispatcher.services):
        pass


async def test_run_list_is_sorted_by_activity_and_filtered_by_name(
    agent: AgentClient, clock: FakeClock
) -> None:
    older, newer = await agent.run(name="Lakes"), await agent.run(name="Rivers")
    clock.advance(minutes=1)
    await agent.job(older)
    runs = await find_runs(looking(agent))
    assert [run.id for run in runs] == [older["runId"], newer["runId"]]
    assert [run.name for run in await find_runs(looking(agent), "RIV")] == ["Rivers"]
    (by_id,) = await find_runs(looking(agent), older["runId"])
    assert by_id.id == older["runId"]


async def test_run_state_is_derived_from_the_stages(agent: AgentClient) -> None:
    run = await agent.run()

    async def state() -> tuple[RunState, str | None, str | None]:
        (run_summary,) = await find_runs(looking(agent), open_only=False)
        board = await read_run_detail(looking(agent), run["runId"], RunInclude.BOARD)
        awaiting = run_summary.awaiting.slug if run_summary.awaiting else None
        assert (board.state, board.awaiting) == (run_summary.state, awaiting)
        return (
            run_summary.state,
            run_summary.current.slug if run_summary.current else None,
            awaiting,
        )

    assert await state() == (RunState.IN_PROGRESS, "scope", None)
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("fail_job", **held, error="No.", retryable=False)
    assert await state() == (RunState.FAILED, "scope", None)
    await agent.call("retry_failed", runId=run["runId"], stageSlug="scope")
    await agent.work_off(run)
    assert await state() == (RunState.AWAITING_FEEDBACK, None, "scope")
    await agent.feedback(run, "scope")
    await agent.work_off(run)
    await agent.feedback(run, "gather")
    await agent.work_off(run)
    assert await state() == (RunState.COMPLETED, None, None)
    assert await find_runs(looking(agent)) == []


async def test_run_detail_shows_holders_of_jobs_and_the_latest_event(agent: AgentClient) -> None:
    run = await agent.run()
    await agent.job(run, sessionId="monday")
    board = await read_run_detail(looking(agent), run["runId"], RunInclude.BOARD)
    (worker,) = board.workers
    assert (worker.held_session, worker.stage, worker.step_key) == ("monday", "scope", "scope")
    assert (board.history[-1].event, board.history[-1].session) == ("step_started", "monday")
    assert board.input_text == "Which river is longest?"
    assert board.expected["scope"].total == 1


async def test_reading_runs_adds_no_audit_entry(agent: AgentClient) -> None:
    run = await agent.run()
    seq = (await read_run_detail(looking(agent), run["runId"], RunInclude.BOARD)).run.seq
    await find_runs(looking(agent))
    await documents_of(looking(agent), run["runId"])
    assert (await read_run_detail(looking(agent), run["runId"], RunInclude.BOARD)).run.seq == seq


async def test_run_name_may_be_omitted_for_the_only_open_run(agent: AgentClient) -> None:
    with pytest.raises(NotFound, match="no run is open"):
        await resolve_run(looking(agent), None)
    run = await agent.run(name="Lakes")
    assert (await resolve_run(looking(agent), None)).id == run["runId"]
    await agent.run(name="Lakes, again")
    assert (await resolve_run(looking(agent), "Lakes")).id == run["runId"], "exact match first"
    with pytest.raises(InvalidInput, match="several runs are open"):
        await resolve_run(looking(agent), None)


async def test_list_documents_returns_only_the_latest_rendered_version(agent: AgentClient) -> None:
    run = await agent.run()
    done = await agent.submit_documents(await agent.job(run), "# One")
    await rendered(agent)
    await agent.call("regenerate_document", documentId=done["documentIds"][0])
    await agent.submit_documents(await agent.job(run), "# Two")
    (before,) = await documents_of(looking(agent), run["runId"])
    assert before.version == 1, "a version that is not rendered is not listed"
    await rendered(agent)
    (after,) = await documents_of(looking(agent), run["runId"])
    assert (after.version, after.document_key, after.model) == (2, "research_brief", "a")
    assert (await read_document(looking(agent), after.resource_id)).markdown.startswith("# Two")
    assert (await read_document(looking(agent), before.resource_id)).markdown.startswith("# One")


async def test_list_documents_returns_documents_in_workflow_order(agent: AgentClient) -> None:
    run = await agent.run()
    await agent.work_off(run)
    await agent.feedback(run, "scope")
    await agent.work_off(run)
    await rendered(agent)
    listed = await documents_of(looking(agent), run["runId"])
    keys = list(dict.fromkeys(document.document_key for document in listed))
    assert keys == ["research_brief", "findings", "cross_review"]


async def test_runs_and_documents_of_other_org_are_not_visible(
    agent: AgentClient, other_org: AgentClient
) -> None:
    theirs: Body = await other_org.run(name="Next door")
    await other_org.submit_documents(await other_org.job(theirs))
    await rendered(other_org)
    (document,) = await documents_of(looking(other_org), theirs["runId"])
    assert await find_runs(looking(agent), theirs["runId"], open_only=False) == []
    with pytest.raises(NotFound):
        await resolve_run(looking(agent), "Next door")
    with pytest.raises(NotFound):
        await read_run_detail(looking(agent), theirs["runId"], RunInclude.BOARD)
    with pytest.raises(NotFound):
        await documents_of(looking(agent), theirs["runId"])
    with pytest.raises(NotFound):
        await read_document(looking(agent), document.resource_id)
