"""Tool calls of the scenario, in which every tool succeeds and is refused at least once."""

import json
from typing import Any

from recorder import DESCRIBED, UNKNOWN_ID, Mcp
from server import Server, wait_until

Body = dict[str, Any]

SESSION = "wire-session"
OTHER = "other-session"
USAGE = {"inputTokens": 100, "outputTokens": 20, "costUsd": 0.01, "model": "m"}
RIVER = {"type": "object", "required": ["river"], "properties": {"river": {"type": "string"}}}
SOURCE = {
    "url": "https://example.org/nile",
    "title": "The Nile",
    "quote": "It is 6,650 km long.",
    "retrievedAt": "2001-01-01T10:00:00Z",
}


def step(instructions: str = "Look it up.", **more: object) -> Body:
    return {"stepType": "search", "instructions": instructions, **more}


def definition(slug: str, **more: object) -> Body:
    """Return a workflow with two stages: first a document per model, then a single document."""

    def stage(name: str, strategy: str, inputs: list[Body]) -> Body:
        output = {"documentKey": name, "render": "{{ content|markdown }}"}
        made = {"stepKey": name, "jobType": "EXECUTE", "granularityStrategy": strategy}
        recipe = {"steps": [{**made, "inputsRequired": inputs, "outputs": [output]}], "edges": []}
        return {"slug": name, "recipe": recipe}

    stages = [
        stage("views", "per_model", []),
        stage("answer", "all_to_one", [{"stage": "views", "documentKey": "views"}]),
    ]
    transitions = [{"from": "views", "to": "answer"}]
    return {"slug": slug, "name": slug, "stages": stages, "transitions": transitions, **more}


def list_everything(mcp: Mcp) -> None:
    """Initialize an MCP connection; list its tools, prompts, resources and templates."""
    client = {"name": "recorder", "version": "1"}
    for version in ("2025-06-18", "2025-11-25", "1999-01-01"):
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        mcp.exchange(f"initialize {version}", "initialize", params, DESCRIBED)
    tools = mcp.exchange("tools/list", "tools/list", {}, DESCRIBED)["result"]["tools"]
    mcp.schemas = {tool["name"]: tool["inputSchema"] for tool in tools}
    mcp.modern("modern tools/list", "tools/list", {}, {}, DESCRIBED)
    mcp.modern("modern server/discover", "server/discover", {}, {}, DESCRIBED)
    mcp.exchange("ping", "ping", {})
    mcp.exchange("prompts/list", "prompts/list", {}, DESCRIBED)
    mcp.exchange("resources/templates/list", "resources/templates/list", {}, DESCRIBED)
    mcp.exchange("resources/list, empty", "resources/list", {}, DESCRIBED)
    mcp.exchange("unknown method", "no/such", {})
    mcp.exchange("unknown tool", "tools/call", {"name": "no_such_tool", "arguments": {}})
    mcp.exchange("arguments that are a list", "tools/call", {"name": "ping", "arguments": []})
    mcp.call("ping")
    mcp.call("list_active_plans", "empty")
    mcp.call("list_dags", "empty")


# Calls for plans


def call_plan_tools(mcp: Mcp) -> dict[str, str]:
    """Call all tools for plans; return ids for pages and commands."""
    plan = _worked_plan(mcp)
    ids = {"plan": plan["planId"], "step": plan["stepIds"][0]}
    ids |= _reviews(mcp)
    _modifications(mcp)
    _endings(mcp)
    ids |= _research(mcp, ids["plan"], ids["step"])
    ids |= _outputs(mcp, ids["plan"])
    _skills(mcp)
    page = mcp.call("list_active_plans", "first page", limit=1)
    mcp.call("list_active_plans", "second page", limit=1, cursor=page["nextCursor"])
    mcp.refuse("list_active_plans", "bad cursor", cursor="nonsense")
    mcp.refuse("list_active_plans", "limit of 0", limit=0)
    return ids


def _worked_plan(mcp: Mcp) -> Body:
    """Complete a plan with claims, results, conditions, outdated attempts and repeated calls."""
    arguments: Body = {
        "name": "Rivers",
        "researchQuestion": "Which river is longest?",
        "steps": [
            step("List candidates.", title="Candidates"),
            step("Measure them.", stepType="extract", resultSchema=RIVER, stallMinutes=5),
            step("Check the lengths.", stepType="critique", dependsOn=[2]),
            step("Look at deltas."),
            step("Write it up.", stepType="synthesize", requiredSources=1),
        ],
        "branchingConditions": [
            {
                "afterStepOrder": 1,
                "conditionExpression": "confidence < 0.5",
                "ifTrueAction": "add_steps",
                "actionParams": {"steps": [step("Search again.")]},
            },
            {
                "afterStepOrder": 2,
                "conditionExpression": "result.river == 'Nile'",
                "ifTrueAction": "skip_to",
                "actionParams": {"targetStepOrder": 5},
            },
        ],
        "outputFormattingNotes": "As a table.",
        "stallMinutes": 20,
        "budget": {"tokens": 150, "costUsd": 1.5},
        "sessionId": SESSION,
    }
    plan = mcp.call("create_research_plan", "ok", **arguments, idempotencyKey="create-1")
    mcp.call("create_research_plan", "replayed", **arguments, idempotencyKey="create-1")
    changed = {**arguments, "name": "Lakes", "idempotencyKey": "create-1"}
    mcp.refuse("create_research_plan", "key used before", **changed)
    _bad_plans(mcp, arguments)
    taken = mcp.call("get_next_step", planId=plan["planId"], sessionId=SESSION)
    mcp.call("get_next_step", "held", planId=plan["planId"], sessionId=SESSION)
    second = mcp.call("get_next_step", "other", planId=plan["planId"], sessionId=OTHER)
    mcp.call("get_step_context", stepId=taken["stepId"], budgetTokens=2_000)
    part = {"stepId": taken["stepId"], "part": "instructions"}
    mcp.call("get_step_context", "read on", **part, offset=1)
    claimed = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    mcp.refuse(
        "submit_step_result",
        "stale attempt",
        **{**claimed, "attempt": 9},
        resultSummary=1,
    )
    result = {**claimed, "resultSummary": {"rivers": ["Nile"]}, "confidence": 0.2, "usage": USAGE}
    noted = {"stepExecutionReport": {"sources": 3}, "outputFormattingNotes": "In bold."}
    mcp.call("submit_step_result", **result, **noted, sessionId=SESSION, idempotencyKey="submit-1")
    mcp.call(
        "submit_step_result",
        "replayed",
        **result,
        **noted,
        sessionId=SESSION,
        idempotencyKey="submit-1",
    )
    mcp.refuse("submit_step_result", "done before", **result)
    _look_at_plan(mcp, plan["planId"], "open")
    claimed = {"stepId": second["stepId"], "attempt": second["attempt"]}
    mcp.refuse("submit_step_result", "against the schema", **claimed, resultSummary=1)
    _submit(mcp, second, {"river": "Nile"}, usage=USAGE)
    while not (taken := _claim(mcp, plan))["instructions"].startswith("Write it up"):
        _submit(mcp, taken, "more")
    mcp.call("get_step_context", "with results", stepId=taken["stepId"])
    claimed = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    mcp.refuse("submit_step_result", "without sources", **claimed, resultSummary="x")
    finding = {"kind": "finding", "title": "Longest", "content": "The Nile is the longest river."}
    where = {"planId": plan["planId"], "stepId": taken["stepId"]}
    mcp.call("store_research", **where, **finding, sources=[SOURCE], tags=["rivers"])
    _submit(mcp, taken, "The Nile.")
    mcp.call("get_next_step", "complete", planId=plan["planId"])
    _look_at_plan(mcp, plan["planId"], "complete")
    return plan


def _bad_plans(mcp: Mcp, arguments: Body) -> None:
    condition = {"afterStepOrder": 1, "conditionExpression": "true", "ifTrueAction": "continue"}
    bare = {**arguments, "branchingConditions": []}
    for case, change in (
        ("no steps", {**bare, "steps": []}),
        ("empty name", {"name": " "}),
        ("long name", {"name": "x" * 1_000}),
        ("long question", {"researchQuestion": "x" * 100_000}),
        (
            "expression",
            {"branchingConditions": [{**condition, "conditionExpression": "result. ("}]},
        ),
        ("unknown step", {"branchingConditions": [{**condition, "afterStepOrder": 77}]}),
        ("dependency on itself", {**bare, "steps": [step(dependsOn=[1])]}),
    ):
        mcp.refuse("create_research_plan", case, **{**arguments, **change})


def _submit(mcp: Mcp, taken: Body, result: object, **more: object) -> Body:
    claimed = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    return mcp.call("submit_step_result", "in passing", **claimed, resultSummary=result, **more)


def _look_at_plan(mcp: Mcp, plan_id: str, case: str) -> None:
    mcp.call("get_plan_status", case, planId=plan_id)
    mcp.call("get_plan_status", f"{case}, detail", planId=plan_id, detail=True)
    mcp.call("get_research_context", case, planId=plan_id, sessionId=SESSION)
    detailed = {"planId": plan_id, "since": 0, "detail": True, "budgetTokens": 2_000}
    mcp.call("get_research_context", f"{case}, detail", **detailed)
    part = {"planId": plan_id, "part": "researchQuestion", "offset": 1}
    mcp.call("get_research_context", f"{case}, read on", **part)
    mcp.call("get_dag_map", f"plan, {case}", planId=plan_id)
    mcp.call("get_run_progress", f"plan, {case}", planId=plan_id, detail=True)
    mcp.call("draw_map", f"plan, {case}", planId=plan_id, width=600, seen="nothing", detail=True)
    for kind in ("", "/map"):
        uri = f"waybook://plans/{plan_id}{kind}"
        mcp.exchange(f"resource plans{kind}, {case}", "resources/read", {"uri": uri})


def _new_plan(mcp: Mcp, name: str, steps: int = 2) -> Body:
    arguments = {"name": name, "researchQuestion": f"{name}?"}
    work = [step(f"Look up {n}.") for n in range(1, steps + 1)]
    return mcp.call("create_research_plan", "in passing", **arguments, steps=work)


def _claim(mcp: Mcp, plan: Body) -> Body:
    return mcp.call("get_next_step", "in passing", planId=plan["planId"])


def _reviews(mcp: Mcp) -> dict[str, str]:
    plan = _new_plan(mcp, "Reviewed", 5)
    taken = _claim(mcp, plan)
    arguments: Body = {
        "summary": "Is this right?",
        "questions": ["Is it?"],
        "resultSummary": {"a": 1},
    }
    review = mcp.call("request_user_review", stepId=taken["stepId"], **arguments)
    mcp.call("get_next_step", "in review", planId=plan["planId"])
    mcp.call("get_plan_status", "in review", planId=plan["planId"])
    mcp.call("get_research_context", "in review", planId=plan["planId"])
    mcp.attempt(
        "tool request_user_review: twice",
        "request_user_review",
        {"stepId": taken["stepId"], **arguments},
    )
    target = {key: review[key] for key in ("planId", "stepId", "reviewId")}
    decided = {**target, "decision": "modify", "feedback": "Add the source."}
    mcp.call("submit_user_decision", **decided, place="form", idempotencyKey="decide-1")
    mcp.refuse("submit_user_decision", "decided", **decided)
    again = _claim(mcp, plan)
    mcp.call("get_step_context", "after feedback", stepId=again["stepId"])
    for decision in ("approve", "skip"):
        mcp.call("request_user_review", decision, stepId=_claim(mcp, plan)["stepId"], **arguments)
        mcp.call("submit_user_decision", decision, planId=plan["planId"], decision=decision)
    _elicited(mcp, _claim(mcp, plan)["stepId"])
    pending = _new_plan(mcp, "Waiting", 2)
    waiting = _claim(mcp, pending)
    opened = mcp.call("request_user_review", "left open", stepId=waiting["stepId"], **arguments)
    rejected = _new_plan(mcp, "Rejected")
    mcp.call("request_user_review", "rejected", stepId=_claim(mcp, rejected)["stepId"], **arguments)
    mcp.call("submit_user_decision", "reject", planId=rejected["planId"], decision="reject")
    return {
        "reviewedPlan": plan["planId"],
        "waitingPlan": pending["planId"],
        "waitingStep": waiting["stepId"],
        "review": opened["reviewId"],
        "failedPlan": rejected["planId"],
    }


def _elicited(mcp: Mcp, step_id: str) -> None:
    """Request a review from a client that can show forms (MCP elicitation); answer the form."""
    capabilities: Body = {"elicitation": {"form": {}}}
    call: Body = {"name": "request_user_review", "arguments": {"stepId": step_id, "summary": "So?"}}
    pending = mcp.modern("elicitation: asked", "tools/call", call, capabilities)["result"]
    response = {"action": "accept", "content": {"decision": "modify", "feedback": "Shorter."}}
    answered = {"requestState": pending["requestState"], "inputResponses": {"decision": response}}
    mcp.modern("elicitation: answered", "tools/call", {**call, **answered}, capabilities)
    broken = {**answered, "requestState": "nonsense"}
    mcp.modern("elicitation: bad state", "tools/call", {**call, **broken}, capabilities)


def _modifications(mcp: Mcp) -> None:
    plan = _new_plan(mcp, "Modified", 4)
    ids = plan["stepIds"]
    target = {"planId": plan["planId"]}
    mixed = [
        {"action": "add_steps", "steps": [step("Added.")], "insertAfterOrder": 1},
        {"action": "remove_step", "stepId": ids[2]},
        {"action": "update_step_instructions", "stepId": ids[1], "instructions": "Otherwise."},
    ]
    why = {"modificationRationale": "Better.", "expectedRevision": 1}
    mcp.call("modify_plan", "dry run", **target, modifications=mixed, dryRun=True)
    mcp.call("modify_plan", **target, modifications=mixed, **why, sessionId=SESSION)
    mcp.refuse("modify_plan", "revision passed", **target, modifications=mixed, **why)
    mcp.call("get_plan_status", "modified", **target, detail=True)
    status = mcp.call("get_research_context", "modified", **target)
    order = [item["stepId"] for item in status["steps"]]
    reordered = [{"action": "reorder_steps", "stepIds": order[::-1]}]
    mcp.call("modify_plan", "reorder", **target, modifications=reordered)
    taken = _claim(mcp, plan)
    failed = {"action": "fail_step", "stepId": taken["stepId"], "reason": "No data.", "retry": True}
    mcp.call("modify_plan", "fail and retry", **target, modifications=[failed])
    taken = _claim(mcp, plan)
    retried = {"action": "retry_step", "stepId": taken["stepId"]}
    mcp.call("modify_plan", "retry", **target, modifications=[retried])
    claimed = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    mcp.refuse("submit_step_result", "late", **claimed, resultSummary="Late.")
    mcp.call("get_research_context", "with a late result", **target)
    for case, change in (
        ("no modifications", []),
        ("unknown action", [{"action": "explode"}]),
        ("unknown step", [{"action": "remove_step", "stepId": UNKNOWN_ID}]),
        ("incomplete order", [{"action": "reorder_steps", "stepIds": order[1:]}]),
    ):
        arguments = {**target, "modifications": change}
        mcp.attempt(f"tool modify_plan: {case}", "modify_plan", arguments)


def _endings(mcp: Mcp) -> None:
    """Let a condition fail a plan; then record the replies of tools that would change the plan."""
    condition = {
        "afterStepOrder": 1,
        "conditionExpression": "result.n == 0",
        "ifTrueAction": "fail",
        "actionParams": {"reason": "Nothing there."},
    }
    arguments = {"name": "Failing", "researchQuestion": "Is there any?", "steps": [step(), step()]}
    plan = mcp.call("create_research_plan", "failing", **arguments, branchingConditions=[condition])
    _submit(mcp, _claim(mcp, plan), {"n": 0})
    mcp.call("get_next_step", "failed", planId=plan["planId"])
    _look_at_plan(mcp, plan["planId"], "failed")
    mcp.call("copy_plan", planId=plan["planId"], upToStep=0, name="Failing, again")
    added = [{"action": "add_steps", "steps": [step()]}]
    for tool, arguments in (
        ("modify_plan", {"planId": plan["planId"], "modifications": added}),
        ("submit_step_result", {"stepId": plan["stepIds"][1], "resultSummary": 1}),
        ("request_user_review", {"stepId": plan["stepIds"][1], "summary": "?"}),
        ("submit_user_decision", {"planId": plan["planId"], "decision": "approve"}),
    ):
        mcp.attempt(f"tool {tool}: failed plan", tool, arguments)


def _research(mcp: Mcp, plan_id: str, step_id: str) -> dict[str, str]:
    arguments: Body = {
        "planId": plan_id,
        "stepId": step_id,
        "kind": "finding",
        "title": "Source of the Nile",
        "content": "The White Nile rises in the Great Lakes region. " * 40,
        "sources": [SOURCE, {"title": "A book of rivers"}],
        "tags": ["rivers", "africa"],
        "metadata": {"checked": True},
    }
    mcp.refuse("store_research", "plan completed", **arguments)
    taken = _claim(mcp, _new_plan(mcp, "Sources"))
    plan_id = taken["planId"]
    arguments |= {"planId": plan_id, "stepId": taken["stepId"]}
    stored = mcp.call("store_research", "with everything", **arguments, idempotencyKey="store-1")
    mcp.call("store_research", "next version", **{**arguments, "content": "It rises in Burundi."})
    alone = {"kind": "note", "title": "Standalone", "content": {"lake": "Baikal", "depth": 1642}}
    mcp.call("store_research", "standalone", **alone)
    odd = {"kind": "note", "title": "Hidden", "content": "plain\u200bhidden\u202etext"}
    mcp.call("store_research", "hidden characters", **odd)
    mcp.call("search_sources", query="where does the Nile rise", limit=2)
    filters = {"planId": plan_id, "kinds": ["finding"], "tags": ["rivers"], "limit": 1}
    mcp.call("search_sources", "filtered", query="Nile", **filters, withinDays=7, cursor="0")
    mcp.call("search_sources", "next page", query="Nile", limit=1, cursor="1")
    mcp.call("search_sources", "nothing", query="xylophone", kinds=["nothing"])
    mcp.attempt("tool search_sources: empty query", "search_sources", {"query": " ", "limit": 1})
    artifact = {"artifactId": stored["artifactId"]}
    mcp.call("get_artifact", **artifact, offset=4, detail=False)
    mcp.call("get_artifact", "whole", **artifact, detail=True)
    mcp.call("get_artifact", "source", artifactId=stored["sourceIds"][0])
    mcp.attempt("tool get_artifact: neither", "get_artifact", {})
    for kind, value in (("artifacts", stored["artifactId"]), ("sources", stored["sourceIds"][0])):
        uri = f"waybook://{kind}/{value}"
        mcp.exchange(f"resource {kind}", "resources/read", {"uri": uri})
    text = {"text": "The Nile is 6,650 km long.", "schema": RIVER}
    mcp.call("extract_data", "prompt", **text)
    mcp.call("extract_data", "candidate", **text, candidate={"river": "Nile"}, detail=False)
    mcp.call("extract_data", "bad candidate", **text, candidate={"lake": 1})
    mcp.call("extract_data", "artifact", **artifact, schema=RIVER, promptOnly=True)
    mcp.attempt("tool extract_data: bad schema", "extract_data", {**text, "schema": {"type": 7}})
    return {"artifact": stored["artifactId"]}


def _outputs(mcp: Mcp, plan_id: str) -> dict[str, str]:
    arguments = {"planId": plan_id, "title": "Rivers", "mediaType": "text/markdown"}
    first = mcp.call("store_research_output", **arguments, content="# Rivers\n\nThe Nile.")
    mcp.call("store_research_output", "next version", **arguments, content="# Rivers\n\nThe Nile!")
    table = {**arguments, "mediaType": "text/csv", "content": "river,km\nNile,6650\n"}
    mcp.call("store_research_output", "table", **table)
    bad = {**table, "mediaType": "image/png"}
    mcp.attempt("tool store_research_output: image", "store_research_output", bad)
    mcp.call("get_next_step", "complete, with outputs", planId=plan_id)
    uri = f"waybook://outputs/{first['outputId']}"
    mcp.exchange("resource outputs", "resources/read", {"uri": uri})
    return {"output": first["outputId"]}


def _skills(mcp: Mcp) -> None:
    mcp.call("list_skills", "all")
    mcp.call("list_skills", "file", name="survey", file="references/places.md")
    mcp.attempt("tool list_skills: unknown", "list_skills", {"name": "no-such"})
    started = mcp.call("start_skill", name="survey", sessionId="skill-session")
    mcp.attempt("tool start_skill: unknown", "start_skill", {"name": "x", "sessionId": "s"})
    arguments = {"name": "By a skill", "researchQuestion": "Where?", "steps": [step()]}
    plan = mcp.call("create_research_plan", "by a skill", **arguments, sessionId="skill-session")
    _submit(mcp, _claim(mcp, plan), "There.")
    mcp.call("get_next_step", "complete, by a skill", planId=plan["planId"])
    done = {"skillExecutionId": started["skillExecutionId"], "outcome": "All seen."}
    mcp.call("complete_skill", **done)
    mcp.attempt("tool complete_skill: twice", "complete_skill", done)


# Calls for runs


def call_run_tools(mcp: Mcp, server: Server) -> dict[str, str]:
    """Call all tools for runs; return ids for pages and commands."""
    mcp.call("add_dag", definition=definition("two-views"))
    mcp.call("add_dag", "same again", definition=definition("two-views"))
    mcp.call("add_dag", "next version", definition=definition("two-views", description="Newer."))
    broken = definition("broken")
    broken["stages"][1]["recipe"]["edges"] = [["answer", "answer"], ["answer", "nowhere"]]
    mcp.refuse("add_dag", "broken", definition=broken)
    mcp.attempt("tool add_dag: no definition", "add_dag", {"definition": {"slug": "x"}})
    mcp.call("list_dags", "some")
    mcp.call("get_dag_map", dagSlug="deep-research", models=["a", "b"], detail=True)
    mcp.call("get_dag_map", "dialectic", dagSlug="dialectic")
    mcp.attempt("tool get_dag_map: unknown", "get_dag_map", {"dagSlug": "no-such"})
    mcp.attempt("tool get_dag_map: nothing", "get_dag_map", {})
    mcp.call("draw_map", "dag", dagSlug="deep-research")
    mcp.attempt("tool draw_map: nothing", "draw_map", {})
    ids = _worked_run(mcp, server)
    _failing_run(mcp)
    waiting = _run(mcp, "Waiting", "two-views")
    # The server renders a document in the background, and this writes an audit entry. Wait for it
    # after each job, because otherwise the order of entries would differ between recordings.
    for count, model in enumerate("ab", 1):
        _submit_job(mcp, _job(mcp, waiting, modelId=model), "# A view")
        _rendered(server, waiting["runId"], count)
    return {**ids, "waitingRun": waiting["runId"]}


def _run(mcp: Mcp, name: str, dag: str = "deep-research") -> Body:
    arguments = {"dagSlug": dag, "name": name, "input": f"{name}?", "models": ["a", "b"]}
    return mcp.call("start_run", "in passing", **arguments)


def _job(mcp: Mcp, run: Body, **more: object) -> Body:
    job = mcp.call("get_next_job", "in passing", runId=run["runId"], **more)
    assert job["status"] == "job_ready", job
    return job


def _submit_job(mcp: Mcp, job: Body, content: object, **more: object) -> Body:
    claimed = {"jobId": job["jobId"], "attempt": job["attempt"]}
    return mcp.call(
        "submit_job_result", "in passing", **claimed, documents=[{"content": content}], **more
    )


def _rendered(server: Server, run_id: str, count: int) -> list[Body]:
    """Wait until the server has rendered `count` documents of a run; return them."""
    documents: list[Body] = []

    def are_rendered() -> bool:
        report = _json(server, f"/api/runs/{run_id}/progress")
        documents[:] = [
            document for stage in report["stages"] for document in stage.get("documents") or []
        ]
        return len(documents) >= count

    wait_until(are_rendered, f"{count} documents are rendered")
    return documents


def _json(server: Server, path: str) -> Body:
    body: Body = json.loads(server.request("GET", path).body)
    return body


def _worked_run(mcp: Mcp, server: Server) -> dict[str, str]:
    """Complete the first stage of a run, give feedback, and work on the second stage."""
    arguments: Body = {"dagSlug": "deep-research", "name": "Lakes", "models": ["a", "b"]}
    question = {"question": "Which lake is deepest?"}
    run = mcp.call("start_run", **arguments, input=question, idempotencyKey="run-1")
    mcp.call("start_run", "replayed", **arguments, input=question, idempotencyKey="run-1")
    mcp.attempt(
        "tool start_run: unknown dag", "start_run", {**arguments, "input": "?", "dagSlug": "x"}
    )
    mcp.attempt("tool start_run: no models", "start_run", {**arguments, "input": "?", "models": []})
    target = {"runId": run["runId"]}
    _look_at_run(mcp, run["runId"], "started")
    mcp.refuse(
        "submit_stage_feedback",
        "too early",
        **target,
        stageSlug="scope",
        feedback="?",
    )
    mcp.call("start_stage", **target, stageSlug="scope", models=["a", "b"])
    mcp.attempt("tool start_stage: not open", "start_stage", {**target, "stageSlug": "synthesis"})
    mcp.attempt("tool start_stage: unknown", "start_stage", {**target, "stageSlug": "no-such"})
    filters = {"jobTypes": ["PLAN", "EXECUTE"], "sessionId": SESSION}
    job = mcp.call("get_next_job", **target, **filters)
    mcp.call("get_next_job", "held", **target, sessionId=SESSION)
    mcp.call("get_next_job", "nothing ready", **target, sessionId=OTHER)
    mcp.attempt("tool get_next_job: RENDER", "get_next_job", {**target, "jobTypes": ["RENDER"]})
    claimed = {"jobId": job["jobId"], "attempt": job["attempt"]}
    mcp.call("get_job_input", "list", jobId=job["jobId"])
    mcp.refuse(
        "submit_job_result", "stale", **{**claimed, "attempt": 9}, documents=[{"content": "x"}]
    )
    mcp.attempt("tool submit_job_result: nothing", "submit_job_result", claimed)
    documents = [{"content": "# A br"}]
    part = mcp.call(
        "submit_job_result", **claimed, documents=documents, continues=True, usage=USAGE
    )
    assert part
    rest = _job(mcp, run)
    document = {"documentKey": "research_brief", "modelId": rest.get("modelId", "a")}
    claimed = {"jobId": rest["jobId"], "attempt": rest["attempt"]}
    mcp.attempt(
        "tool submit_job_result: documents",
        "submit_job_result",
        {**claimed, "documents": [{**document, "content": "ief of lakes."}]},
    )
    _rendered(server, run["runId"], 1)
    mcp.call("get_next_job", "awaiting feedback", **target)
    _look_at_run(mcp, run["runId"], "awaiting feedback")
    feedback = {**target, "stageSlug": "scope", "feedback": "Only fresh water."}
    mcp.call("submit_stage_feedback", **feedback, models=["a", "b", "c"], place="app")
    mcp.refuse("submit_stage_feedback", "twice", **feedback)
    return _second_stage(mcp, server, run)


def _second_stage(mcp: Mcp, server: Server, run: Body) -> dict[str, str]:
    """Read the inputs of jobs, fail a job, complete two other jobs, and regenerate a document."""
    target = {"runId": run["runId"]}
    gathering = _job(mcp, run, modelId="b")
    brief = next(item for item in gathering["inputs"] if "documentId" in item)
    job_id = {"jobId": gathering["jobId"]}
    mcp.call("get_job_input", "by id", **job_id, documentId=brief["documentId"], offset=1)
    keyed = {"documentKey": "feedback", "stageSlug": "scope", "offset": 1}
    mcp.call("get_job_input", "by key", **job_id, **keyed)
    claimed = {**job_id, "attempt": gathering["attempt"]}
    mcp.call("fail_job", **claimed, error="The line is dead.", retryable=True)
    mcp.refuse("fail_job", "twice", **claimed, error="Again.", retryable=True)
    _submit_job(mcp, _job(mcp, run, modelId="a"), "# Findings of a", usage=USAGE)
    _rendered(server, run["runId"], 2)
    done = _submit_job(mcp, _job(mcp, run, modelId="c"), "# Findings of c", usage=USAGE)
    mcp.call("get_next_job", "backing off", **target, modelId="b")
    documents = _rendered(server, run["runId"], 3)
    _look_at_run(mcp, run["runId"], "half done")
    mcp.call("regenerate_document", documentId=done["documentIds"][0])
    mcp.attempt(
        "tool regenerate_document: twice",
        "regenerate_document",
        {"documentId": done["documentIds"][0]},
    )
    uri = f"waybook://documents/{documents[0]['resourceId']}"
    mcp.exchange("resource documents", "resources/read", {"uri": uri})
    return {"run": run["runId"], "document": documents[0]["resourceId"]}


def _look_at_run(mcp: Mcp, run_id: str, case: str) -> None:
    mcp.call("get_run_progress", case, runId=run_id)
    mcp.call("get_run_progress", f"{case}, detail", runId=run_id, detail=True)
    mcp.call("get_dag_map", f"run, {case}", runId=run_id)
    mcp.call("draw_map", f"run, {case}", runId=run_id)
    for kind in ("progress", "map"):
        uri = f"waybook://runs/{run_id}/{kind}"
        mcp.exchange(f"resource runs/{kind}, {case}", "resources/read", {"uri": uri})


def _failing_run(mcp: Mcp) -> None:
    run = _run(mcp, "Failing")
    job = _job(mcp, run)
    claimed = {"jobId": job["jobId"], "attempt": job["attempt"]}
    mcp.call("fail_job", "for good", **claimed, error="No.", retryable=False)
    mcp.call("get_next_job", "stage failed", runId=run["runId"])
    _look_at_run(mcp, run["runId"], "failed")
    target = {"runId": run["runId"], "stageSlug": "scope"}
    mcp.call("retry_failed", **target, stepKey="scope")
    mcp.call("retry_failed", "nothing left", **target)
    mcp.attempt("tool retry_failed: unknown step", "retry_failed", {**target, "stepKey": "x"})
    mcp.call("get_next_job", "after a retry", runId=run["runId"])
    copy = mcp.call("copy_run", runId=run["runId"], fromStage="scope", name="Failing, again")
    mcp.call("cancel_run", runId=copy["runId"], reason="It was only a copy.")


# Calls for prompts and resources


def read_prompts_and_resources(mcp: Mcp, ids: dict[str, str]) -> None:
    for name, arguments in (
        ("resume_plan", {"planId": ids["plan"]}),
        ("plan_research", {"question": "Why?"}),
        ("work_on_run", {"runId": ids["run"]}),
        ("survey", {"question": "Where?"}),
        ("survey", {}),
        ("resume_plan", {}),
        ("no_such_prompt", {}),
    ):
        params = {"name": name, "arguments": arguments}
        mcp.exchange(f"prompt {name}", "prompts/get", params, DESCRIBED)
    mcp.exchange("prompts/list, with skills", "prompts/list", {}, DESCRIBED)
    for kind, ref, argument, value in (
        ("plans", {"type": "ref/prompt", "name": "resume_plan"}, "planId", "wait"),
        ("runs", {"type": "ref/prompt", "name": "work_on_run"}, "runId", ""),
        ("other", {"type": "ref/prompt", "name": "plan_research"}, "question", "x"),
        ("map", {"type": "ref/resource", "uri": "waybook://runs/{id}/map"}, "id", "fail"),
        ("plan", {"type": "ref/resource", "uri": "waybook://plans/{id}"}, "id", ids["plan"][:-1]),
    ):
        params = {"ref": ref, "argument": {"name": argument, "value": value}}
        mcp.exchange(f"completion {kind}", "completion/complete", params)
    mcp.exchange("resources/list", "resources/list", {})
    for uri in (
        "ui://waybook/map",
        "skill://survey/SKILL.md",
        f"waybook://plans/{UNKNOWN_ID}",
        "waybook://no/such",
        f"waybook://documents/{UNKNOWN_ID}",
        f"waybook://outputs/{UNKNOWN_ID}",
    ):
        mcp.exchange(f"resource {uri}", "resources/read", {"uri": uri})
