"""Promises about plans and runs, checked through `waybook mcp` and the commands."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client, StdioServerParameters

from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory
from patience import PATIENCE_SECONDS
from report_invariants import check
from run_place import run_directory
from waybook.dag.progress.report import Report

TYPES = ("search", "extract", "analyze", "critique", "synthesize", "checkpoint", "custom")
Body = dict[str, Any]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with make_data_directory(parent=run_directory()) as place:
        yield place / "data"


class Outside:
    """MCP client of a server process, with commands that use the server's data directory."""

    def __init__(self, client: Client, terminal: Terminal) -> None:
        self.client = client
        self.terminal = terminal

    async def call(self, tool: str, **arguments: object) -> Body:
        result = await self.client.call_tool(tool, arguments)
        body = result.structured_content
        text: Any = result.content[0]
        reply: Body = json.loads(text.text) if body is None else body
        return reply

    async def refused(self, tool: str, **arguments: object) -> str:
        """Return the error code of a call, or an empty text if the call succeeds."""
        reply = await self.call(tool, **arguments)
        return str(reply["error"]["code"]) if "error" in reply else ""

    async def plan(self, count: int = 3, **more: object) -> Body:
        steps = [{"stepType": "search", "instructions": f"Look up {n}."} for n in range(count)]
        named = {"name": "Rivers", "researchQuestion": "Which river is longest?"}
        return await self.call("create_research_plan", **{**named, "steps": steps, **more})

    async def take(self, plan: Body, **more: object) -> Body:
        return await self.call("get_next_step", planId=plan["planId"], **more)

    async def submit(self, step: Body, result: object = "found", **more: object) -> Body:
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        return await self.call("submit_step_result", **held, resultSummary=result, **more)

    async def status(self, plan: Body) -> Body:
        return await self.call("get_plan_status", planId=plan["planId"])

    async def states(self, plan: Body) -> list[str]:
        context = await self.call("get_research_context", planId=plan["planId"])
        return [step["status"] for step in context["steps"]]

    async def modify(self, plan: Body, action: str, **fields: object) -> Body:
        change = {"action": action, **fields}
        named = {"planId": plan["planId"], "modificationRationale": "because"}
        return await self.call("modify_plan", **named, modifications=[change])

    async def review(self, plan: Body) -> None:
        step = await self.take(plan)
        await self.call("request_user_review", stepId=step["stepId"], summary="Two rivers.")

    async def decide(self, plan: Body, decision: str, **more: object) -> tuple[str, str]:
        """Decide the open review; return the new statuses of the step and the plan."""
        named = {"planId": plan["planId"], "decision": decision}
        reply = await self.call("submit_user_decision", **named, **more)
        return reply["stepStatus"], reply["planStatus"]

    async def command(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        return await asyncio.to_thread(self.terminal.json_output, *words)

    async def audit(self, plan: Body) -> list[tuple[str, str | None]]:
        """Return the event and action of each audit entry of a plan, oldest first."""
        entries = await self.command("audit", "list", plan["planId"], "--limit", "500")
        return [(entry["event"], entry["details"].get("action")) for entry in entries][::-1]

    async def report(self, run: Body) -> Body:
        return await self.call("get_run_progress", runId=run["runId"], detail=True)


def make_condition(after: int, expression: str, action: str, **params: object) -> Body:
    condition = {"afterStepOrder": after, "conditionExpression": expression}
    return {**condition, "ifTrueAction": action, "actionParams": params}


async def check_creation(outside: Outside) -> None:
    skill = await outside.call("start_skill", name="quick-scan", sessionId="creation")
    plan = await outside.plan(
        steps=[{"stepType": kind, "instructions": f"Do {kind}."} for kind in TYPES],
        branchingConditions=[make_condition(2, "result == 'stop'", "fail")],
        outputFormattingNotes="One page.",
        sessionId="creation",
    )
    assert plan["planId"]
    assert (plan["status"], len(plan["stepIds"])) == ("planning", 7)
    assert plan["firstStep"]["instructions"] == "Do search."
    context = await outside.call("get_research_context", planId=plan["planId"])
    assert context["researchQuestion"] == "Which river is longest?"
    assert context["planFormattingNotes"] == "One page."
    assert [step["stepOrder"] for step in context["steps"]] == [*range(1, 8)]
    assert {step["status"] for step in context["steps"]} == {"pending"}
    assert [step["stepType"] for step in context["steps"]] == [*TYPES]
    linked = context["skill"]
    if isinstance(linked, dict):
        assert linked["skillExecutionId"] == skill["skillExecutionId"]
    else:
        assert linked == "quick-scan"
    steps = [{"stepType": "other", "instructions": "x"}]
    bad = {"name": "n", "researchQuestion": "q", "steps": steps}
    assert await outside.refused("create_research_plan", **bad) == "INVALID_INPUT"
    assert ("plan_modified", "created") in await outside.audit(plan)
    taken = await outside.take(plan)
    fields = taken["stepId"], taken["stepOrder"], taken["stepType"], taken["instructions"]
    assert fields == (plan["stepIds"][0], 1, "search", "Do search.")
    await outside.submit(taken)
    stopped = await outside.take(plan)
    assert stopped["stepOrder"] == 2
    assert (await outside.submit(stopped, "stop"))["planStatus"] == "failed"
    assert (await outside.take(plan))["status"] == "plan_failed"
    assert (await outside.states(plan))[2:] == ["pending"] * 5


async def check_loop(outside: Outside) -> None:
    plan = await outside.plan(3)
    first = await outside.take(plan)
    assert first["stepOrder"] == 1
    assert await outside.states(plan) == ["in_progress", "pending", "pending"]
    assert (await outside.status(plan))["status"] == "executing"
    assert "step_started" in [event for event, _ in await outside.audit(plan)]
    await check_research(outside, plan, first)
    notes = {"stepExecutionReport": "Read a book.", "outputFormattingNotes": "Bold."}
    done = await outside.submit(first, {"rivers": 2}, confidence=0.85, **notes)
    assert done["stepStatus"] == "completed"
    (shown,) = (await outside.status(plan))["completedSteps"]
    assert (shown["resultSummary"], shown["confidence"]) == ({"rivers": 2}, 0.85)
    assert "step_completed" in [event for event, _ in await outside.audit(plan)]
    second = await outside.take(plan)
    prior = await outside.call("get_step_context", stepId=second["stepId"])
    assert prior["earlierResults"][0]["resultSummary"] == {"rivers": 2}
    third = {"stepId": plan["stepIds"][2]}
    pending = await outside.call("submit_step_result", **third, resultSummary="early")
    assert pending["stepStatus"] == "completed"
    newest = (await outside.command("audit", "list", plan["planId"]))[0]
    moves = [change["to"] for change in newest["changes"] if change["field"] == "status"]
    assert moves == ["in_progress", "completed"]
    assert await outside.refused("submit_step_result", **third, resultSummary="late")
    none = await outside.take(plan, sessionId="other")
    assert (none["status"], none["inProgress"], none["failed"]) == ("no_pending_steps", 1, 0)
    assert (await outside.submit(second))["planStatus"] == "completed"
    complete = await outside.take(plan)
    assert complete["status"] == "plan_complete"
    assert [note["notes"] for note in complete["stepFormattingNotes"]] == ["Bold."]
    assert "error" in await outside.modify(plan, "retry_step", **third)
    assert (await outside.status(plan))["progress"] == 100


async def check_research(outside: Outside, plan: Body, step: Body) -> None:
    assert "hits" in await outside.call("search_sources", query="rivers of the world")
    note = {"kind": "note", "title": "Nile", "content": "The Nile is long."}
    stored = await outside.call("store_research", **note, stepId=step["stepId"])
    found = await outside.call("search_sources", query="Nile", planId=plan["planId"])
    assert [hit["id"] for hit in found["hits"]] == [stored["artifactId"]]
    context = await outside.call("get_step_context", stepId=step["stepId"])
    assert stored["artifactId"] in json.dumps(context)
    candidate = {"schema": {"type": "object"}, "text": "x", "candidate": {"a": 1}}
    assert (await outside.call("extract_data", **candidate))["status"] == "extracted"


async def check_completion(outside: Outside) -> None:
    await outside.call("start_skill", name="quick-scan", sessionId="done")
    plan = await outside.plan(1, sessionId="done", outputFormattingNotes="Two pages.")
    await outside.submit(await outside.take(plan, sessionId="done"), sessionId="done")
    reply = await outside.take(plan)
    assert reply["outputMediaType"] == "text/markdown"
    assert reply["outputFormattingInstructions"]
    assert "Two pages." in json.dumps(reply["planFormattingNotes"])
    output = {"mediaType": "text/markdown", "title": "Report", "content": "# Nile"}
    stored = await outside.call("store_research_output", planId=plan["planId"], **output)
    assert stored["status"] == "stored"


async def check_reviews(outside: Outside) -> None:
    plan = await outside.plan(4)
    held = await outside.take(plan)
    request: Body = {"stepId": held["stepId"], "summary": "Two rivers.", "questions": ["Which?"]}
    request["resultSummary"] = {"n": 2}
    review = await outside.call("request_user_review", **request)
    assert (review["stepStatus"], review["planStatus"]) == ("awaiting_input", "awaiting_review")
    assert ("user_reviewed", "review_requested") in await outside.audit(plan)
    waiting = await outside.take(plan)
    assert (waiting["status"], waiting["review"]["questions"]) == ("awaiting_review", ["Which?"])
    status = await outside.status(plan)
    assert status["derivedStatus"] == "awaiting_review"
    assert status["currentStep"]["status"] == "awaiting_input"
    assert "error" in await outside.modify(plan, "remove_step", stepId=plan["stepIds"][3])
    assert await outside.refused("submit_user_decision", planId=plan["planId"], decision="maybe")
    modified = await outside.decide(plan, "modify", feedback="Add the Amazon.")
    assert modified == ("in_progress", "executing")
    again = await outside.take(plan)
    assert again["stepId"] == held["stepId"]
    assert again["instructions"].endswith("---\n\nUser feedback: Add the Amazon.")
    await outside.call("request_user_review", **request)
    assert await outside.decide(plan, "approve") == ("completed", "executing")
    await outside.review(plan)
    assert await outside.decide(plan, "skip") == ("skipped", "executing")
    pending = {"stepId": plan["stepIds"][3], "summary": "x"}
    assert await outside.refused("request_user_review", **pending)
    await outside.review(plan)
    assert await outside.decide(plan, "reject") == ("failed", "failed")
    assert (await outside.take(plan))["status"] == "plan_failed"
    decisions = [action for event, action in await outside.audit(plan) if event == "user_reviewed"]
    assert decisions == ["review_requested", "decision"] * 4


async def check_modifications(outside: Outside) -> None:
    plan = await outside.plan(3)
    new = [{"stepType": "analyze", "instructions": "New."}]
    added = await outside.modify(plan, "add_steps", steps=new, insertAfterOrder=1)
    ids = [step["stepId"] for step in added["steps"]]
    assert (added["planStatus"], [ids[0], *ids[2:]]) == ("planning", plan["stepIds"])
    appended = await outside.modify(plan, "add_steps", steps=new)
    ids = [step["stepId"] for step in appended["steps"]]
    assert (len(ids), ids[3]) == (5, plan["stepIds"][2])
    removed = await outside.modify(plan, "remove_step", stepId=ids[4])
    assert [step["stepOrder"] for step in removed["steps"]] == [1, 2, 3, 4]
    order = [ids[1], ids[0], ids[2], ids[3]]
    reordered = await outside.modify(plan, "reorder_steps", stepIds=order)
    assert [step["stepId"] for step in reordered["steps"]] == order
    assert "error" in await outside.modify(plan, "reorder_steps", stepIds=order[:2])
    taken = {"stepId": (await outside.take(plan))["stepId"]}
    assert taken["stepId"] == order[0]
    assert "error" in await outside.modify(plan, "remove_step", **taken)
    await outside.modify(plan, "update_step_instructions", **taken, instructions="Changed.")
    assert (await outside.call("get_step_context", **taken))["instructions"] == "Changed."
    failed = await outside.modify(plan, "fail_step", **taken, reason="no source")
    assert (failed["planStatus"], failed["steps"][0]["status"]) == ("executing", "failed")
    assert (await outside.status(plan))["status"] == "executing"
    assert (await outside.take(plan))["stepId"] == order[1]
    pending = await outside.modify(plan, "fail_step", stepId=order[2], reason="not needed")
    assert pending["steps"][2]["status"] == "failed"
    audit = await outside.audit(plan)
    assert [event for event, _ in audit].count("step_failed") == 2
    actions = {"created", "add_steps", "remove_step", "reorder_steps", "update_step_instructions"}
    assert actions <= {action for event, action in audit if event == "plan_modified"}
    entries = await outside.command("audit", "list", plan["planId"], "--limit", "500")
    assert "because" in json.dumps(entries)
    retried = await outside.modify(plan, "retry_step", **taken)
    assert retried["steps"][0]["status"] == "pending"
    assert (await outside.take(plan, sessionId="b"))["stepId"] == taken["stepId"]


async def check_derived_status(outside: Outside) -> None:
    plan = await outside.plan(3)
    assert (await outside.status(plan))["status"] == "planning"
    steps = [await outside.take(plan, another=True) for _ in range(3)]
    await outside.submit(steps[0])
    await outside.modify(plan, "fail_step", stepId=steps[1]["stepId"], reason="x")
    assert (await outside.status(plan))["derivedStatus"] == "executing"
    last = {"stepId": steps[2]["stepId"]}
    review = await outside.call("request_user_review", **last, summary="x")
    assert review["planStatus"] == "awaiting_review"
    assert (await outside.status(plan))["derivedStatus"] == "awaiting_review"
    await outside.decide(plan, "skip")
    status = await outside.status(plan)
    assert (status["status"], status["derivedStatus"]) == ("completed", "completed")
    assert status["progress"] == 67
    assert await outside.refused("submit_step_result", **last, resultSummary="x")
    plan = await outside.plan(2)
    for _ in range(2):
        step = await outside.take(plan)
        await outside.modify(plan, "fail_step", stepId=step["stepId"], reason="x")
    status = await outside.status(plan)
    assert (status["derivedStatus"], status["progress"]) == ("completed", 0)


async def check_branches(outside: Outside) -> None:
    skip = make_condition(1, "confidence > 0.5", "skip_to", targetStepOrder=3)
    plan = await outside.plan(3, branchingConditions=[skip])
    done = await outside.submit(await outside.take(plan), confidence=0.9)
    assert done["branches"][0]["action"] == "skip_to"
    assert await outside.states(plan) == ["completed", "skipped", "pending"]
    steps = [{"stepType": "search", "instructions": "More."}]
    more = make_condition(1, "true", "add_steps", steps=steps)
    plan = await outside.plan(2, branchingConditions=[more])
    await outside.submit(await outside.take(plan))
    assert (await outside.take(plan))["instructions"] == "More."
    plan = await outside.plan(2, branchingConditions=[make_condition(1, "true", "continue")])
    await outside.submit(await outside.take(plan))
    assert (await outside.take(plan))["stepOrder"] == 2


async def check_stall(outside: Outside) -> None:
    plan = await outside.plan(3, stallMinutes=0.01)
    first = await outside.take(plan, sessionId="monday")
    while not (status := await outside.status(plan))["stalled"]:
        pass
    assert (status["status"], status["derivedStatus"]) == ("stalled", "executing")
    assert status["stalledSteps"][0]["stepId"] == first["stepId"]
    listed = await outside.call("list_active_plans")
    assert plan["planId"] in [active["planId"] for active in listed["plans"]]
    context = await outside.call("get_research_context", planId=plan["planId"], sessionId="tuesday")
    assert [step["status"] for step in context["steps"]] == ["in_progress", "pending", "pending"]
    assert (await outside.take(plan, sessionId="tuesday"))["stepOrder"] == 2
    audit = await outside.audit(plan)
    assert "resumed" in [action for _, action in audit]
    assert "session_resumed" in [event for event, _ in audit]


async def check_status(outside: Outside) -> None:
    plan = await outside.plan(4)
    await outside.submit(await outside.take(plan), {"key findings": "x"}, confidence=0.85)
    await outside.take(plan)
    status = await outside.status(plan)
    assert {"planId", "name", "status", "derivedStatus", "stalled", "progress"} <= set(status)
    assert (status["progress"], status["totalSteps"], status["stalled"]) == (25, 4, False)
    of_any = {"stepId", "stepOrder", "stepType"}
    of_result = {"status", "resultSummary", "confidence"}
    assert of_any | of_result <= set(status["completedSteps"][0])
    assert of_any | {"status"} <= set(status["currentStep"])
    assert status["currentStep"]["stepOrder"] == 2
    assert of_any <= set(status["pendingSteps"][0])
    assert [step["stepOrder"] for step in status["pendingSteps"]] == [3, 4]
    listed = (await outside.call("list_active_plans"))["plans"]
    (entry,) = [active for active in listed if active["planId"] == plan["planId"]]
    assert entry["progress"] == status["progress"]
    active_statuses = {"planning", "executing", "awaiting_review", "stalled"}
    assert {active["status"] for active in listed} <= active_statuses
    fresh = await outside.plan(1)
    assert (await outside.status(fresh)).get("currentStep") is None
    skill = await outside.call("start_skill", name="quick-scan", sessionId="skill")
    await outside.call("complete_skill", skillExecutionId=skill["skillExecutionId"])
    events = {e["event"] for e in await outside.command("audit", "list", "--limit", "500")}
    of_steps = {"step_started", "step_completed", "step_failed"}
    others = {"plan_modified", "user_reviewed", "session_resumed"}
    assert of_steps | others | {"skill_started", "skill_completed"} <= events


async def check_map(outside: Outside) -> None:
    models, n = ["a", "b", "c"], 3
    drawn = await outside.call("get_dag_map", dagSlug="dialectic", models=models)
    steps = {
        stage["stageSlug"]: (
            len(stage["steps"]),
            sum(step["jobType"] == "PLAN" for step in stage["steps"]),
        )
        for stage in drawn["stages"]
    }
    expected_steps = {"thesis": (5, 1), "antithesis": (7, 1), "synthesis": (13, 2)}
    assert steps == {**expected_steps, "parenthesis": (4, 1), "paralysis": (4, 1)}
    expected = [stage["expected"]["total"] for stage in drawn["stages"]]
    assert expected == [4 * n + 1, 7 * n**2, 4 * n**3 + 4 * n + 5, 3 * n + 1, 3 * n + 1]
    assert len(drawn["transitions"]) == 4
    assert all(stage["roots"] and stage["leaves"] for stage in drawn["stages"])


async def check_run(outside: Outside) -> None:
    named = {"dagSlug": "dialectic", "name": "Rivers", "input": "Which?"}
    run = await outside.call("start_run", **named, models=["a", "b", "c"])
    report = await outside.report(run)
    assert report["dagProgress"] == {"completedStages": 0, "totalStages": 5}
    first, *later = report["stages"]
    counts = [(s["progress"]["completedSteps"], s["progress"]["totalSteps"]) for s in later]
    assert {s["status"] for s in later} == {"not_started"}
    assert counts == [(0, 0)] * 4
    assert first["progress"]["totalSteps"] == 5
    assert (first["modelCount"], later[0]["modelCount"]) == (3, None)
    states = {step["stepKey"]: step["status"] for step in first["steps"]}
    assert sorted(states.values()) == ["in_progress"] + ["not_started"] * 4
    fields = {"stageSlug", "status", "modelCount", "progress", "steps", "documents"}
    assert fields <= set(first)
    job = await outside.call("get_next_job", runId=run["runId"], sessionId="w")
    assert job["stepKey"] in states
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    retry = await outside.call("fail_job", **held, error="lost", retryable=True)
    assert (retry["jobId"], retry["status"]) == (job["jobId"], "retrying")
    report = await outside.report(run)
    assert report["stages"][0]["steps"][0]["status"] == "in_progress"
    await check_feedback(outside, run, await complete_stage(outside, run, report))
    await check_documents(outside, run)


async def complete_stage(outside: Outside, run: Body, before: Body) -> Body:
    """Complete all jobs of a stage, one of them in two parts; return the last progress report."""
    is_continued = False
    while True:
        job = await outside.call("get_next_job", runId=run["runId"], waitSeconds=5)
        if job["status"] == "awaiting_feedback":
            return before
        if job["status"] != "job_ready":
            assert job["status"] == "nothing_ready", job
            continue
        in_parts = not is_continued and job["jobType"] == "EXECUTE"
        keys = {"documentKey", "modelId"}
        named = [{k: v for k, v in d.items() if k in keys} for d in job["documents"]]
        documents = (
            [{"content": "# Part"}] if in_parts else [{**d, "content": "# F"} for d in named]
        )
        held = {"jobId": job["jobId"], "attempt": job["attempt"], "documents": documents}
        done = await outside.call("submit_job_result", **held, continues=in_parts)
        report = await outside.report(run)
        assert check(cast("Report", report), cast("Report", before)) == []
        before = report
        if in_parts:
            is_continued = True
            assert done["continuation"]
            states = {s["stepKey"]: s["status"] for s in report["stages"][0]["steps"]}
            assert states[job["stepKey"]] == "in_progress"


async def check_feedback(outside: Outside, run: Body, before: Body) -> None:
    thesis, antithesis, *_ = before["stages"]
    assert (thesis["status"], antithesis["status"]) == ("completed", "not_started")
    assert before["dagProgress"]["completedStages"] == 1
    named = {"runId": run["runId"], "stageSlug": "thesis", "feedback": "Go on."}
    done = await outside.call("submit_stage_feedback", **named, models=["a", "b"])
    assert done["started"][0]["models"] == ["a", "b"]
    report = await outside.report(run)
    assert report["stages"][0]["progress"] == thesis["progress"]
    assert report["stages"][1]["modelCount"] == 2
    assert (await outside.report(run))["stages"][1:] == report["stages"][1:]


async def check_documents(outside: Outside, run: Body) -> None:
    while not (stage := (await outside.report(run))["stages"][0])["documents"]:
        pass
    document = stage["documents"][0]
    assert {"documentKey", "modelId", "resourceId", "status"} <= set(document)
    assert (document["status"], stage["documentsExpected"]) == ("available", 12)


async def check_failure(outside: Outside) -> None:
    named = {"dagSlug": "dialectic", "name": "Rivers", "input": "Which?", "models": ["a"]}
    run = await outside.call("start_run", **named)
    job = await outside.call("get_next_job", runId=run["runId"])
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await outside.call("fail_job", **held, error="refused", retryable=False)
    stage = (await outside.report(run))["stages"][0]
    assert (stage["status"], stage["steps"][0]["status"]) == ("failed", "failed")
    assert stage["progress"]["failedSteps"] == 1


async def check_tools(outside: Outside) -> None:
    tools = {tool.name for tool in (await outside.client.list_tools()).tools}
    assert tools >= {
        *("create_research_plan", "get_next_step", "submit_step_result", "modify_plan", "ping"),
        *("get_plan_status", "request_user_review", "submit_user_decision", "search_sources"),
        *("get_research_context", "get_step_context", "extract_data", "store_research"),
        *("store_research_output", "list_active_plans"),
    }
    plan, statuses = await outside.plan(2), []
    while (step := await outside.take(plan))["status"] == "step_ready":
        statuses.append((await outside.submit(step))["planStatus"])
    assert (statuses, step["status"]) == (["executing", "completed"], "plan_complete")


async def test_promises_about_plans_and_runs_hold_over_mcp_and_commands(data_dir: Path) -> None:
    environment = {**os.environ, "WAYBOOK_CONFIG": str(data_dir / "none.toml")}
    arguments = ["-m", "waybook", "mcp", "--data-dir", str(data_dir), "--tools", "all"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with asyncio.timeout(PATIENCE_SECONDS), Client(server) as client:
        outside = Outside(client, Terminal(data_dir))
        for check_statements in (
            *(check_creation, check_loop, check_completion, check_reviews, check_modifications),
            *(check_derived_status, check_branches, check_stall, check_status),
            *(check_map, check_run, check_failure, check_tools),
        ):
            await check_statements(outside)
        left = await outside.plan(2)
        await outside.take(left, sessionId="monday")
    # The plan must survive the end of the session and of the server.
    async with asyncio.timeout(PATIENCE_SECONDS), Client(server) as client:
        outside.client = client
        assert await outside.states(left) == ["in_progress", "pending"]
        assert (await outside.take(left, sessionId="tuesday"))["stepOrder"] == 2
