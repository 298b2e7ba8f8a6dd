"""The statements of the source documents, each checked through `waybook mcp` and commands.

Run with `-s` to print the statements.
"""

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
from run_place import run_directory
from waybook.dag.progress.report import Report, check

TYPES = ("search", "extract", "analyze", "critique", "synthesize", "checkpoint", "custom")
Body = dict[str, Any]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with make_data_directory(parent=run_directory()) as place:
        yield place / "data"


class Outside:
    """Client of a server process, and the statements that it has checked."""

    def __init__(self, client: Client, terminal: Terminal) -> None:
        self.client = client
        self.terminal = terminal
        self.statements: list[tuple[str, str, bool]] = []
        self.document = ""

    def holds(self, statement: str, seen: object) -> None:
        self.statements.append((self.document, statement, bool(seen)))

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

    async def review(self, plan: Body, **more: object) -> Body:
        step = await self.take(plan)
        review = {"stepId": step["stepId"], "summary": "Two rivers.", **more}
        return await self.call("request_user_review", **review)

    async def decide(self, plan: Body, decision: str, **more: object) -> Body:
        named = {"planId": plan["planId"], "decision": decision}
        return await self.call("submit_user_decision", **named, **more)

    async def command(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        return await asyncio.to_thread(self.terminal.json_output, *words)

    async def audit(self, plan: Body) -> list[tuple[str, str | None]]:
        """Return the events of a plan with their actions, the oldest first."""
        entries = await self.command("audit", "list", plan["planId"], "--limit", "500")
        return [(entry["event"], entry["details"].get("action")) for entry in entries][::-1]


async def check_creation(outside: Outside) -> None:
    outside.document = "execution loop"
    steps = [{"stepType": kind, "instructions": f"Do {kind}."} for kind in TYPES]
    condition = {
        "afterStepOrder": 2,
        "conditionExpression": "result == 'stop'",
        "ifTrueAction": "fail",
    }
    skill = await outside.call("start_skill", name="quick-scan", sessionId="creation")
    plan = await outside.plan(
        steps=steps,
        branchingConditions=[condition],
        outputFormattingNotes="One page.",
        sessionId="creation",
    )
    holds = outside.holds
    holds(
        "create_research_plan makes a plan with the status planning", plan["status"] == "planning"
    )
    context = await outside.call("get_research_context", planId=plan["planId"])
    holds("the plan stores the question", context["researchQuestion"] == "Which river is longest?")
    holds(
        "the plan stores optional formatting notes", context["planFormattingNotes"] == "One page."
    )
    holds(
        "step_order starts at 1 and has no gap",
        [s["stepOrder"] for s in context["steps"]] == [*range(1, 8)],
    )
    holds("each step starts as pending", {s["status"] for s in context["steps"]} == {"pending"})
    holds(
        "the seven step types are accepted", [s["stepType"] for s in context["steps"]] == [*TYPES]
    )
    bad = [{"stepType": "other", "instructions": "x"}]
    holds(
        "another step type is refused",
        await outside.refused("create_research_plan", name="n", researchQuestion="q", steps=bad)
        == "INVALID_INPUT",
    )
    holds(
        "the plan is linked to the last skill started in its session",
        context["skill"]["skillExecutionId"] == skill["skillExecutionId"]
        if isinstance(context["skill"], dict)
        else context["skill"] == "quick-scan",
    )
    holds(
        "creation is audited as plan_modified, created",
        ("plan_modified", "created") in await outside.audit(plan),
    )
    holds("the response includes the planId", plan["planId"])
    holds("the response includes the step ids", len(plan["stepIds"]) == 7)
    holds("the response includes the first step", plan["firstStep"]["instructions"] == "Do search.")
    taken = await outside.take(plan)
    holds(
        "get_next_step returns id, order, type and instructions",
        (taken["stepId"], taken["stepOrder"], taken["stepType"], taken["instructions"])
        == (plan["stepIds"][0], 1, "search", "Do search."),
    )
    await outside.submit(taken)
    stopped = await outside.take(plan)
    holds("afterStepOrder resolves to the step", stopped["stepOrder"] == 2)
    failed = await outside.submit(stopped, "stop")
    holds(
        "a fail branch sets the plan to failed and returns immediately",
        failed["planStatus"] == "failed",
    )
    holds(
        "get_next_step of a failed plan returns plan_failed",
        (await outside.take(plan))["status"] == "plan_failed",
    )
    states = await outside.states(plan)
    holds("a plan that fails leaves other steps as they are", states[2:] == ["pending"] * 5)


async def check_loop(outside: Outside) -> None:
    holds = outside.holds
    plan = await outside.plan(3)
    first = await outside.take(plan)
    holds("get_next_step finds the first pending step by step_order", first["stepOrder"] == 1)
    states = await outside.states(plan)
    holds(
        "get_next_step moves the step from pending to in_progress",
        states == ["in_progress", "pending", "pending"],
    )
    holds(
        "the first get_next_step moves the plan from planning to executing",
        (await outside.status(plan))["status"] == "executing",
    )
    holds(
        "get_next_step writes step_started",
        ("step_started", None) in [(e, None) for e, _ in await outside.audit(plan)],
    )
    search = await outside.call("search_sources", query="rivers of the world")
    holds("search_sources queries stored research", "hits" in search)
    stored = await outside.call(
        "store_research",
        kind="note",
        title="Nile",
        content="The Nile is long.",
        stepId=first["stepId"],
    )
    holds("store_research persists an intermediate artifact", stored["artifactId"])
    nile = await outside.call("search_sources", query="Nile", planId=plan["planId"])
    holds(
        "search finds the stored artifact",
        [hit["id"] for hit in nile["hits"]] == [stored["artifactId"]],
    )
    context = await outside.call("get_step_context", stepId=first["stepId"])
    holds("get_step_context returns related artifacts", stored["artifactId"] in json.dumps(context))
    extracted = await outside.call(
        "extract_data", schema={"type": "object"}, text="x", candidate={"a": 1}
    )
    holds("extract_data extracts structured data", extracted["status"] == "extracted")
    done = await outside.submit(
        first,
        {"rivers": 2},
        confidence=0.85,
        stepExecutionReport="Read a book.",
        outputFormattingNotes="Bold.",
    )
    holds("submit_step_result completes the step", done["stepStatus"] == "completed")
    status = await outside.status(plan)
    (shown,) = status["completedSteps"]
    holds("the resultSummary is stored", shown["resultSummary"] == {"rivers": 2})
    holds("the confidence is stored", shown["confidence"] == 0.85)
    holds(
        "submit_step_result writes step_completed",
        "step_completed" in [e for e, _ in await outside.audit(plan)],
    )
    second = await outside.take(plan)
    prior = await outside.call("get_step_context", stepId=second["stepId"])
    holds(
        "get_step_context returns prior results",
        prior["earlierResults"][0]["resultSummary"] == {"rivers": 2}
        if "resultSummary" in prior["earlierResults"][0]
        else '"rivers"' in json.dumps(prior["earlierResults"]),
    )
    third = plan["stepIds"][2]
    pending = await outside.call("submit_step_result", stepId=third, resultSummary="early")
    holds("submit_step_result accepts a pending step", pending["stepStatus"] == "completed")
    newest = (await outside.command("audit", "list", plan["planId"]))[0]
    moves = [change["to"] for change in newest["changes"] if change["field"] == "status"]
    holds("a pending step goes through both transitions", moves == ["in_progress", "completed"])
    again = await outside.call("submit_step_result", stepId=third, resultSummary="late")
    holds("a completed step accepts no second result", "error" in again)
    none = await outside.take(plan, sessionId="other")
    holds(
        "with no pending step but one in progress: no_pending_steps",
        none["status"] == "no_pending_steps",
    )
    holds(
        "no_pending_steps has the counts in progress and failed",
        (none["inProgress"], none["failed"]) == (1, 0),
    )
    ended = await outside.submit(second)
    holds("the plan completes when all steps are terminal", ended["planStatus"] == "completed")
    complete = await outside.take(plan)
    holds(
        "get_next_step of a completed plan returns plan_complete",
        complete["status"] == "plan_complete",
    )
    holds(
        "plan_complete has stepFormattingNotes",
        [n["notes"] for n in complete["stepFormattingNotes"]] == ["Bold."],
    )
    final = await outside.status(plan)
    holds(
        "completed is terminal: no change is accepted",
        await outside.refused(
            "modify_plan",
            planId=plan["planId"],
            modifications=[{"action": "retry_step", "stepId": third}],
        ),
    )
    holds("progress of a completed plan is 100", final["progress"] == 100)


async def check_completion(outside: Outside) -> None:
    holds = outside.holds
    await outside.call("start_skill", name="quick-scan", sessionId="done")
    plan = await outside.plan(1, sessionId="done", outputFormattingNotes="Two pages.")
    await outside.submit(await outside.take(plan, sessionId="done"), sessionId="done")
    reply = await outside.take(plan)
    holds(
        "plan_complete has outputMediaType of the linked skill",
        reply["outputMediaType"] == "text/markdown",
    )
    holds(
        "plan_complete has outputFormattingInstructions of the linked skill",
        reply["outputFormattingInstructions"],
    )
    holds(
        "plan_complete has planFormattingNotes",
        "Two pages." in json.dumps(reply["planFormattingNotes"]),
    )
    stored = await outside.call(
        "store_research_output",
        planId=plan["planId"],
        mediaType="text/markdown",
        title="Report",
        content="# Nile",
    )
    holds("the deliverable is stored with store_research_output", stored["status"] == "stored")


async def check_reviews(outside: Outside) -> None:
    holds = outside.holds
    plan = await outside.plan(4)
    held = await outside.take(plan)
    review = await outside.call(
        "request_user_review",
        stepId=held["stepId"],
        summary="Two rivers.",
        questions=["Which?"],
        resultSummary={"n": 2},
    )
    holds(
        "request_user_review moves the step to awaiting_input",
        review["stepStatus"] == "awaiting_input",
    )
    holds(
        "request_user_review moves the plan to awaiting_review",
        review["planStatus"] == "awaiting_review",
    )
    holds(
        "request_user_review writes user_reviewed, review_requested",
        ("user_reviewed", "review_requested") in await outside.audit(plan),
    )
    waiting = await outside.take(plan)
    holds(
        "get_next_step returns awaiting_review until the user responds",
        waiting["status"] == "awaiting_review",
    )
    holds("the review shows summary and questions", waiting["review"]["questions"] == ["Which?"])
    holds(
        "derivedStatus of a plan with a step awaiting_input is awaiting_review",
        (await outside.status(plan))["derivedStatus"] == "awaiting_review",
    )
    holds(
        "currentStep is the step awaiting input",
        (await outside.status(plan))["currentStep"]["status"] == "awaiting_input",
    )
    holds(
        "a plan awaiting review cannot be modified",
        await outside.refused(
            "modify_plan",
            planId=plan["planId"],
            modifications=[{"action": "remove_step", "stepId": plan["stepIds"][3]}],
        ),
    )
    modified = await outside.decide(plan, "modify", feedback="Add the Amazon.")
    holds("modify returns the step to in_progress", modified["stepStatus"] == "in_progress")
    holds("modify resumes the plan to executing", modified["planStatus"] == "executing")
    again = await outside.take(plan)
    holds(
        "modify appends the feedback after a rule",
        again["instructions"].endswith("---\n\nUser feedback: Add the Amazon."),
    )
    holds("the modified step is handed out again", again["stepId"] == held["stepId"])
    await outside.call(
        "request_user_review",
        stepId=held["stepId"],
        summary="Three rivers.",
        resultSummary={"n": 3},
    )
    approved = await outside.decide(plan, "approve")
    holds("approve completes the step", approved["stepStatus"] == "completed")
    holds("approve resumes the plan to executing", approved["planStatus"] == "executing")
    await outside.review(plan)
    skipped = await outside.decide(plan, "skip")
    holds("skip skips the step", skipped["stepStatus"] == "skipped")
    holds("skip resumes the plan to executing", skipped["planStatus"] == "executing")
    holds(
        "a review needs a step in progress",
        await outside.refused("request_user_review", stepId=plan["stepIds"][3], summary="x"),
    )
    await outside.review(plan)
    rejected = await outside.decide(plan, "reject")
    holds("reject fails the step", rejected["stepStatus"] == "failed")
    holds("reject fails the plan", rejected["planStatus"] == "failed")
    holds(
        "failed is terminal: no step is handed out",
        (await outside.take(plan))["status"] == "plan_failed",
    )
    decisions = [action for event, action in await outside.audit(plan) if event == "user_reviewed"]
    holds(
        "each review and each decision writes user_reviewed",
        decisions == ["review_requested", "decision"] * 4,
    )
    holds(
        "another decision is refused",
        await outside.refused("submit_user_decision", planId=plan["planId"], decision="maybe")
        == "INVALID_INPUT",
    )


async def check_modifications(outside: Outside) -> None:
    holds = outside.holds
    plan = await outside.plan(3)
    new = [{"stepType": "analyze", "instructions": "New."}]
    added = await outside.modify(plan, "add_steps", steps=new, insertAfterOrder=1)
    ids = [step["stepId"] for step in added["steps"]]
    holds("a plan in planning can be modified", added["planStatus"] == "planning")
    holds("add_steps inserts and shifts the steps behind", [ids[0], *ids[2:]] == plan["stepIds"])
    appended = await outside.modify(plan, "add_steps", steps=new)
    ids = [step["stepId"] for step in appended["steps"]]
    holds("add_steps appends to the end by default", len(ids) == 5 and ids[3] == plan["stepIds"][2])
    removed = await outside.modify(plan, "remove_step", stepId=ids[4])
    holds(
        "remove_step deletes a step and compacts the orders",
        [s["stepOrder"] for s in removed["steps"]] == [1, 2, 3, 4],
    )
    order = [ids[1], ids[0], ids[2], ids[3]]
    reordered = await outside.modify(plan, "reorder_steps", stepIds=order)
    holds(
        "reorder_steps assigns the orders of the given ids",
        [s["stepId"] for s in reordered["steps"]] == order,
    )
    holds(
        "reorder_steps needs the complete list",
        "error" in await outside.modify(plan, "reorder_steps", stepIds=order[:2]),
    )
    taken = await outside.take(plan)
    holds("steps are handed out in the new order", taken["stepId"] == order[0])
    holds(
        "remove_step needs a pending step",
        "error" in await outside.modify(plan, "remove_step", stepId=taken["stepId"]),
    )
    await outside.modify(
        plan, "update_step_instructions", stepId=taken["stepId"], instructions="Changed."
    )
    holds(
        "update_step_instructions replaces the text, also in progress",
        (await outside.call("get_step_context", stepId=taken["stepId"]))["instructions"]
        == "Changed.",
    )
    failed = await outside.modify(plan, "fail_step", stepId=taken["stepId"], reason="no source")
    holds("a plan in executing can be modified", failed["planStatus"] == "executing")
    holds(
        "fail_step fails a step in progress", next(s["status"] for s in failed["steps"]) == "failed"
    )
    holds(
        "a failed step does not fail the plan",
        (await outside.status(plan))["status"] == "executing",
    )
    holds(
        "the plan continues with the next pending step",
        (await outside.take(plan))["stepId"] == order[1],
    )
    pending = await outside.modify(plan, "fail_step", stepId=order[2], reason="not needed")
    holds("fail_step fails a pending step", [s["status"] for s in pending["steps"]][2] == "failed")
    audit = await outside.audit(plan)
    holds("fail_step writes step_failed", [e for e, _ in audit].count("step_failed") == 2)
    holds(
        "modifications write plan_modified with the action",
        {action for event, action in audit if event == "plan_modified"}
        >= {"created", "add_steps", "remove_step", "reorder_steps", "update_step_instructions"},
    )
    entries = await outside.command("audit", "list", plan["planId"], "--limit", "500")
    holds("a modification has its rationale", "because" in json.dumps(entries))
    retried = await outside.modify(plan, "retry_step", stepId=taken["stepId"])
    holds(
        "a failed step can go back to pending",
        next(s["status"] for s in retried["steps"]) == "pending",
    )
    first = await outside.take(plan, sessionId="b")
    holds("get_next_step picks up the retried step", first["stepId"] == taken["stepId"])


async def check_machines(outside: Outside) -> None:
    outside.document = "state machines"
    holds = outside.holds
    plan = await outside.plan(3)
    status = await outside.status(plan)
    holds("a new plan is planning", status["status"] == "planning")
    steps = [await outside.take(plan, another=True) for _ in range(3)]
    await outside.submit(steps[0])
    await outside.modify(plan, "fail_step", stepId=steps[1]["stepId"], reason="x")
    status = await outside.status(plan)
    holds(
        "completed, failed and open steps derive to executing",
        status["derivedStatus"] == "executing",
    )
    review = await outside.call("request_user_review", stepId=steps[2]["stepId"], summary="x")
    holds(
        "awaiting_input wins over failed",
        (review["planStatus"], (await outside.status(plan))["derivedStatus"])
        == ("awaiting_review",) * 2,
    )
    await outside.decide(plan, "skip")
    status = await outside.status(plan)
    holds(
        "completed, failed and skipped steps derive to completed",
        (status["status"], status["derivedStatus"]) == ("completed",) * 2,
    )
    holds("progress counts completed and skipped, not failed", status["progress"] == 67)
    holds(
        "a skipped step has no way out",
        await outside.refused("submit_step_result", stepId=steps[2]["stepId"], resultSummary="x"),
    )
    plan = await outside.plan(2)
    for _ in range(2):
        step = await outside.take(plan)
        await outside.modify(plan, "fail_step", stepId=step["stepId"], reason="x")
    status = await outside.status(plan)
    holds(
        "all steps failed: the plan is completed with 0 percent",
        (status["derivedStatus"], status["progress"]) == ("completed", 0),
    )
    condition = {
        "afterStepOrder": 1,
        "conditionExpression": "confidence > 0.5",
        "ifTrueAction": "skip_to",
        "actionParams": {"targetStepOrder": 3},
    }
    plan = await outside.plan(3, branchingConditions=[condition])
    done = await outside.submit(await outside.take(plan), confidence=0.9)
    holds("conditions are evaluated after the result", done["branches"][0]["action"] == "skip_to")
    holds(
        "skip_to moves pending steps between to skipped",
        await outside.states(plan) == ["completed", "skipped", "pending"],
    )
    more = {
        "afterStepOrder": 1,
        "conditionExpression": "true",
        "ifTrueAction": "add_steps",
        "actionParams": {"steps": [{"stepType": "search", "instructions": "More."}]},
    }
    plan = await outside.plan(2, branchingConditions=[more])
    await outside.submit(await outside.take(plan))
    holds(
        "add_steps adds steps behind the step",
        (await outside.take(plan))["instructions"] == "More.",
    )
    on = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "continue"}
    plan = await outside.plan(2, branchingConditions=[on])
    await outside.submit(await outside.take(plan))
    holds("continue goes on with the next step", (await outside.take(plan))["stepOrder"] == 2)


async def check_stall(outside: Outside) -> None:
    outside.document = "progress tracking"
    holds = outside.holds
    plan = await outside.plan(3, stallMinutes=0.01)
    first = await outside.take(plan, sessionId="monday")
    while not (status := await outside.status(plan))["stalled"]:
        pass
    holds(
        "get_plan_status moves an executing plan with a stuck step to stalled",
        status["status"] == "stalled",
    )
    holds("derivedStatus may differ from status", status["derivedStatus"] == "executing")
    holds("the stalled step is named", status["stalledSteps"][0]["stepId"] == first["stepId"])
    listed = await outside.call("list_active_plans")
    holds("a stalled plan is active", plan["planId"] in [p["planId"] for p in listed["plans"]])
    context = await outside.call("get_research_context", planId=plan["planId"], sessionId="tuesday")
    holds(
        "a new session reads all steps, statuses and results",
        [s["status"] for s in context["steps"]] == ["in_progress", "pending", "pending"],
    )
    second = await outside.take(plan, sessionId="tuesday")
    holds("a new session gets the next pending step, not the stuck one", second["stepOrder"] == 2)
    audit = await outside.audit(plan)
    holds("get_next_step resumes a stalled plan", "resumed" in [action for _, action in audit])
    events = [event for event, _ in audit]
    holds("the new session is audited as session_resumed", "session_resumed" in events)


async def check_status(outside: Outside) -> None:
    holds = outside.holds
    plan = await outside.plan(4)
    first = await outside.take(plan)
    await outside.submit(first, {"key findings": "x"}, confidence=0.85)
    await outside.take(plan)
    status = await outside.status(plan)
    for field in (
        "planId",
        "name",
        "status",
        "derivedStatus",
        "stalled",
        "progress",
        "totalSteps",
        "currentStep",
        "completedSteps",
        "pendingSteps",
    ):
        holds(f"get_plan_status has {field}", field in status)
    holds("progress is a number, 0 to 100, rounded", status["progress"] == 25)
    holds("totalSteps is the number of steps", status["totalSteps"] == 4)
    holds("stalled is a boolean", status["stalled"] is False)
    completed = status["completedSteps"][0]
    holds(
        "a completed step has id, order, type, status, result and confidence",
        {"stepId", "stepOrder", "stepType", "status", "resultSummary", "confidence"}
        <= set(completed),
    )
    holds(
        "currentStep has id, order, type and status",
        {"stepId", "stepOrder", "stepType", "status"} <= set(status["currentStep"]),
    )
    holds("currentStep is the step in progress", status["currentStep"]["stepOrder"] == 2)
    holds(
        "a pending step has id, order and type",
        {"stepId", "stepOrder", "stepType"} <= set(status["pendingSteps"][0]),
    )
    holds(
        "pendingSteps are the steps not started",
        [s["stepOrder"] for s in status["pendingSteps"]] == [3, 4],
    )
    listed = (await outside.call("list_active_plans"))["plans"]
    (entry,) = [p for p in listed if p["planId"] == plan["planId"]]
    holds("list_active_plans has the same progress", entry["progress"] == status["progress"])
    holds(
        "list_active_plans lists no completed or failed plan",
        {p["status"] for p in listed} <= {"planning", "executing", "awaiting_review", "stalled"},
    )
    fresh = await outside.plan(1)
    holds(
        "currentStep is null if no step is active",
        (await outside.status(fresh)).get("currentStep") is None,
    )
    skill = await outside.call("start_skill", name="quick-scan", sessionId="skill")
    await outside.call("complete_skill", skillExecutionId=skill["skillExecutionId"])
    events = {e["event"] for e in await outside.command("audit", "list", "--limit", "500")}
    holds(
        "the audit has the eight event types",
        events
        >= {
            "step_started",
            "step_completed",
            "step_failed",
            "plan_modified",
            "user_reviewed",
            "session_resumed",
            "skill_started",
            "skill_completed",
        },
    )


STAGES = {"thesis": 5, "antithesis": 7, "synthesis": 13, "parenthesis": 4, "paralysis": 4}


async def check_map(outside: Outside) -> None:
    outside.document = "progress of a DAG"
    holds = outside.holds
    models = ["a", "b", "c"]
    drawn = await outside.call("get_dag_map", dagSlug="dialectic", models=models)
    holds(
        "the map is known before any work begins",
        [len(s["steps"]) for s in drawn["stages"]] == [*STAGES.values()],
    )
    for (slug, count), stage in zip(STAGES.items(), drawn["stages"], strict=True):
        plans = sum(step["jobType"] == "PLAN" for step in stage["steps"])
        holds(
            f"{slug} has {count} steps, {2 if slug == 'synthesis' else 1} of them PLAN",
            (stage["stageSlug"], len(stage["steps"]), plans)
            == (slug, count, 2 if slug == "synthesis" else 1),
        )
    expected = [stage["expected"]["total"] for stage in drawn["stages"]]
    n = len(models)
    holds(
        "expected counts follow the strategies",
        expected == [4 * n + 1, 7 * n**2, 4 * n**3 + 4 * n + 5, 3 * n + 1, 3 * n + 1],
    )
    holds("the stages are linked by transitions", len(drawn["transitions"]) == 4)
    holds(
        "the map has root and leaf steps",
        all(stage["roots"] and stage["leaves"] for stage in drawn["stages"]),
    )
    run = await outside.call(
        "start_run", dagSlug="dialectic", name="Rivers", input="Which?", models=models
    )
    report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
    holds(
        "totalStages is known when the run starts",
        report["dagProgress"] == {"completedStages": 0, "totalStages": 5},
    )
    first, *later = report["stages"]
    holds(
        "stages not yet started are not_started, 0 of 0",
        all(
            (s["status"], s["progress"]["completedSteps"], s["progress"]["totalSteps"])
            == ("not_started", 0, 0)
            for s in later
        ),
    )
    holds(
        "totalSteps of a started stage is the step count of its recipe",
        first["progress"]["totalSteps"] == 5,
    )
    holds(
        "modelCount is that of the started stage",
        (first["modelCount"], later[0]["modelCount"]) == (3, None),
    )
    states = {step["stepKey"]: step["status"] for step in first["steps"]}
    holds(
        "the reached root step is in_progress, the rest not_started",
        sorted(states.values()) == ["in_progress"] + ["not_started"] * 4,
    )
    holds(
        "the fields of the report are those of the schema",
        {"stageSlug", "status", "modelCount", "progress", "steps", "documents"} <= set(first),
    )
    job = await outside.call("get_next_job", runId=run["runId"], sessionId="w")
    holds("a job names its step", job["stepKey"] in states)
    retry = await outside.call(
        "fail_job", jobId=job["jobId"], attempt=job["attempt"], error="lost", retryable=True
    )
    holds(
        "a retry keeps the same job",
        (retry["jobId"], retry["status"]) == (job["jobId"], "retrying"),
    )
    report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
    holds(
        "a retry leaves the step in_progress",
        report["stages"][0]["steps"][0]["status"] == "in_progress",
    )
    await check_run(outside, run, report)


async def check_run(outside: Outside, run: Body, before: Body) -> None:
    """Work through the first stage, and check every report."""
    holds = outside.holds
    problems: list[object] = []
    changed = False
    is_waiting = False
    while not is_waiting:
        job = await outside.call("get_next_job", runId=run["runId"], waitSeconds=5)
        if job["status"] == "job_ready":
            documents = [
                {
                    **{k: v for k, v in d.items() if k in {"documentKey", "modelId"}},
                    "content": "# Found",
                }
                for d in job["documents"]
            ]
            continues = not changed and job["jobType"] == "EXECUTE"
            held = {"jobId": job["jobId"], "attempt": job["attempt"]}
            sent = (
                {"documents": [{"content": "# Part"}], "continues": True}
                if continues
                else {"documents": documents}
            )
            done = await outside.call("submit_job_result", **held, **sent)
            report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
            if continues:
                changed = True
                holds("a continuation creates a sibling job", done["continuation"])
                states = {s["stepKey"]: s["status"] for s in report["stages"][0]["steps"]}
                holds(
                    "a continuation leaves the step in_progress",
                    states[job["stepKey"]] == "in_progress",
                )
            problems += check(cast("Report", report), cast("Report", before))
            before = report
        elif job["status"] == "awaiting_feedback":
            is_waiting = True
            holds(
                "a stage is complete when all its steps are",
                before["stages"][0]["status"] == "completed",
            )
            holds(
                "DAG progress counts the completed stage",
                before["dagProgress"]["completedStages"] == 1,
            )
            holds(
                "the next stage waits for the user",
                before["stages"][1]["status"] == "not_started",
            )
            done = await outside.call(
                "submit_stage_feedback",
                runId=run["runId"],
                stageSlug="thesis",
                feedback="Go on.",
                models=["a", "b"],
            )
            holds(
                "feedback starts the next stage with other models",
                done["started"][0]["models"] == ["a", "b"],
            )
            report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
            holds(
                "a change of models leaves completed stages unchanged",
                report["stages"][0]["progress"] == before["stages"][0]["progress"],
            )
            holds(
                "modelCount of the new stage is the new count",
                report["stages"][1]["modelCount"] == 2,
            )
        else:
            assert job["status"] == "nothing_ready", job
    for invariant in (
        "completedSteps counts completed steps",
        "totalSteps is the length of steps",
        "failedSteps counts failed steps",
        "a stage is completed if and only if all its steps are and none failed",
        "completedStages counts completed stages",
        "progress never decreases",
    ):
        holds(invariant, not problems)
    report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
    again = await outside.call("get_run_progress", runId=run["runId"], detail=True)
    holds("progress does not depend on who reads it", report["stages"] == again["stages"])
    while not all(stage["documents"] for stage in report["stages"][:1]):
        report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
    document = report["stages"][0]["documents"][0]
    holds(
        "a document has key, model, resource and the status available",
        {"documentKey", "modelId", "resourceId", "status"} <= set(document)
        and document["status"] == "available",
    )
    holds(
        "expected documents are reported beside the available ones",
        report["stages"][0]["documentsExpected"] == 12,
    )


async def check_failure(outside: Outside) -> None:
    holds = outside.holds
    run = await outside.call(
        "start_run", dagSlug="dialectic", name="Rivers", input="Which?", models=["a"]
    )
    job = await outside.call("get_next_job", runId=run["runId"])
    await outside.call(
        "fail_job", jobId=job["jobId"], attempt=job["attempt"], error="refused", retryable=False
    )
    report = await outside.call("get_run_progress", runId=run["runId"], detail=True)
    stage = report["stages"][0]
    holds("a step with a terminally failed job is failed", stage["steps"][0]["status"] == "failed")
    holds("failed steps are counted apart from running ones", stage["progress"]["failedSteps"] == 1)
    holds("a stage with a failed step is failed", stage["status"] == "failed")


async def check_durability(outside: Outside) -> None:
    outside.document = "overview"
    holds = outside.holds
    tools = {tool.name for tool in (await outside.client.list_tools()).tools}
    named = {
        "create_research_plan",
        "get_next_step",
        "submit_step_result",
        "modify_plan",
        "get_plan_status",
        "request_user_review",
        "submit_user_decision",
        "get_research_context",
        "get_step_context",
        "search_sources",
        "extract_data",
        "store_research",
        "store_research_output",
        "list_active_plans",
        "ping",
    }
    holds("every tool of the documents exists", named <= tools)
    plan = await outside.plan(2)
    loop = []
    while (step := await outside.take(plan))["status"] == "step_ready":
        loop.append((await outside.submit(step))["planStatus"])
    holds(
        "get_next_step and submit_step_result end in plan_complete",
        (loop, step["status"]) == (["executing", "completed"], "plan_complete"),
    )


async def test_every_statement_of_the_source_documents_is_true(data_dir: Path) -> None:
    environment = {**os.environ, "WAYBOOK_CONFIG": str(data_dir / "none.toml")}
    arguments = ["-m", "waybook", "mcp", "--data-dir", str(data_dir), "--tools", "all"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with asyncio.timeout(PATIENCE_SECONDS), Client(server) as client:
        outside = Outside(client, Terminal(data_dir))
        await check_creation(outside)
        await check_loop(outside)
        await check_completion(outside)
        await check_reviews(outside)
        await check_modifications(outside)
        await check_machines(outside)
        await check_stall(outside)
        await check_status(outside)
        await check_map(outside)
        await check_failure(outside)
        await check_durability(outside)
        left = await outside.plan(2)
        await outside.take(left, sessionId="monday")
    async with asyncio.timeout(PATIENCE_SECONDS), Client(server) as client:
        outside.client = client
        outside.holds(
            "a plan survives the end of the session and of the server",
            await outside.states(left) == ["in_progress", "pending"],
        )
        outside.holds(
            "a new session goes on with get_next_step",
            (await outside.take(left, sessionId="tuesday"))["stepOrder"] == 2,
        )
    for document, statement, held in outside.statements:
        print(f"| {document} | {statement} | {'true' if held else 'FALSE'} |")  # noqa: T201 - for -s
    assert [s for _, s, held in outside.statements if not held] == []
