"""Valid call of every tool, with the records that the call needs.

Tests that iterate over all tools fail if this module has no call for a tool.
"""

from collections.abc import Awaitable, Callable

import run_calls
from org_env import AgentClient, Body, branch_condition, make_step
from waybook.app.registry import TOOLS
from waybook.app.request.arguments import MutatingArguments
from waybook.store.driver.queries import new_uuid

Prepare = Callable[[AgentClient], Awaitable[Body]]

MUTATING = sorted(
    name for name, tool in TOOLS.items() if issubclass(tool.arguments, MutatingArguments)
)


async def _create(_: AgentClient) -> Body:
    condition = branch_condition(1, "confidence < 0.5", "skip_to", targetStepOrder=2)
    return {
        "name": "Lakes",
        "researchQuestion": "Which lake is deepest?",
        "steps": [make_step(), make_step(title="Second", stallMinutes=5, touches=["a/**"])],
        "sequential": True,
        "branchingConditions": [condition],
        "outputFormattingNotes": "As a table.",
        "stallMinutes": 20,
        "budget": {"tokens": 10_000, "costUsd": 1.5},
    }


async def _copy(agent: AgentClient) -> Body:
    plan_id = (await agent.plan())["planId"]
    return {"planId": plan_id, "upToStep": 0, "atAuditSeq": 1, "name": "Rivers again"}


async def _next(agent: AgentClient) -> Body:
    return {"planId": (await agent.plan())["planId"], "another": False, "waitSeconds": 0}


async def _submit(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    return {
        "stepId": taken["stepId"],
        "resultSummary": {"river": "Nile"},
        "confidence": 0.9,
        "stepExecutionReport": {"sources": 3},
        "outputFormattingNotes": "In bold.",
        "attempt": taken["attempt"],
        "usage": {"inputTokens": 100, "outputTokens": 20, "costUsd": 0.01, "model": "m"},
        "takeNext": True,
    }


async def _context(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    return {"stepId": taken["stepId"], "budgetTokens": 2_000}


async def _read_on(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    return {"stepId": taken["stepId"], "part": "instructions", "offset": 1}


async def _review(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    return {
        "stepId": taken["stepId"],
        "attempt": taken["attempt"],
        "summary": "Is this right?",
        "questions": ["Is it?"],
        "resultSummary": {"river": "Nile"},
    }


async def _comment(agent: AgentClient) -> Body:
    step_id = (await agent.plan())["stepIds"][0]
    question = await agent.call("comment", subjectId=step_id, text="Is it?")
    return {
        "subjectId": step_id,
        "text": "It is, @ann.",
        "resolveIds": [question["commentId"]],
        "assignee": agent.caller.user,
    }


async def _decide(agent: AgentClient) -> Body:
    review = await agent.call("request_user_review", **await _review(agent))
    named = {name: review[name] for name in ("planId", "stepId", "reviewId")}
    return {**named, "decision": "modify", "feedback": "Add the source.", "place": "form"}


async def _modify(agent: AgentClient) -> Body:
    plan = await agent.plan()
    return {
        "planId": plan["planId"],
        "modifications": [
            {"action": "add_steps", "steps": [make_step()], "insertAfterOrder": 1},
            {"action": "remove_step", "stepId": plan["stepIds"][2]},
        ],
        "modificationRationale": "Better so.",
        "expectedRevision": 1,
        "dryRun": False,
    }


async def _status(agent: AgentClient) -> Body:
    return {"planId": (await agent.plan())["planId"], "detail": True}


async def _list(agent: AgentClient) -> Body:
    await agent.plan()
    await agent.plan()
    page = await agent.call("list_active_plans", limit=1)
    return {"limit": 1, "cursor": page["nextCursor"]}


async def _research(agent: AgentClient) -> Body:
    plan_id = (await agent.plan())["planId"]
    return {"planId": plan_id, "since": 0, "detail": True, "budgetTokens": 2_000}


async def _research_read_on(agent: AgentClient) -> Body:
    return {"planId": (await agent.plan())["planId"], "part": "researchQuestion", "offset": 1}


async def _output(agent: AgentClient) -> Body:
    named = {"mediaType": "text/markdown", "title": "Lakes", "content": "# Lakes"}
    return {"planId": (await agent.plan())["planId"], **named}


async def _list_skills(_: AgentClient) -> Body:
    return {"name": "survey", "file": "SKILL.md"}


async def _start_skill(_: AgentClient) -> Body:
    return {"name": "survey", "sessionId": "a session"}


async def _complete_skill(agent: AgentClient) -> Body:
    started = await agent.call("start_skill", name="survey", sessionId="a session")
    return {"skillExecutionId": started["skillExecutionId"], "outcome": "All seen."}


async def submit_late_result(agent: AgentClient, text: str = "The Nile is 6,650 km long.") -> str:
    plan = await agent.plan()
    taken = await agent.take(plan)
    await agent.modify(plan, "retry_step", stepId=taken["stepId"])
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
    await agent.refused("submit_step_result", **held, resultSummary=text)
    context = await agent.call("get_research_context", planId=plan["planId"])
    artifact_id: str = context["artifacts"][0]["artifactId"]
    return artifact_id


RIVER: Body = {"type": "object", "required": ["river"]}


async def _extract(_: AgentClient) -> Body:
    checked = {"schema": RIVER, "candidate": {"river": "Nile"}}
    how = {"promptOnly": False, "offset": 0, "detail": False}
    return {"text": "The Nile is 6,650 km long.", **checked, **how}


async def _extract_stored(agent: AgentClient) -> Body:
    return {"artifactId": await submit_late_result(agent), "schema": RIVER}


async def _nothing(_: AgentClient) -> Body:
    return {}


async def _store(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    source = {
        "url": "https://example.org/nile",
        "title": f"The Nile {new_uuid()}",
        "quote": "It is 6,650 km long.",
        "retrievedAt": "2030-01-01T10:00:00Z",
    }
    return {
        "planId": taken["planId"],
        "stepId": taken["stepId"],
        "kind": "finding",
        "title": "Longest river",
        "content": "The Nile is the longest river.",
        "sources": [source, {"title": f"A book {new_uuid()}"}],
        "tags": ["rivers", "africa"],
        "metadata": {"checked": True},
    }


async def _search(agent: AgentClient) -> Body:
    stored = await agent.call("store_research", **await _store(agent))
    await agent.call("store_research", kind="finding", title="Nile again", content="The Nile.")
    return {
        "query": "longest river Nile",
        "planId": stored["planId"],
        "kinds": ["finding", "note"],
        "tags": ["rivers"],
        "withinDays": 1.5,
        "limit": 1,
        "cursor": 0,
    }


async def _artifact(agent: AgentClient) -> Body:
    stored = await agent.call("store_research", **await _store(agent))
    return {"artifactId": stored["artifactId"], "offset": 4, "detail": False}


async def _reserve(agent: AgentClient) -> Body:
    cap = {"scope": "plan", "unit": "costUsd", "limit": 1}
    # The first cap of an org also begins the org's audit.
    begun = (await agent.plan())["planId"]
    await agent.call("reserve_work", planId=begun, agent="codex", caps=[cap])
    plan_id = (await agent.plan())["planId"]
    more = {"maximum": {"costUsd": 0.5}, "caps": [cap], "leaseSeconds": 60}
    return {"planId": plan_id, "agent": "codex", **more}


async def _reserve_of_run(agent: AgentClient) -> Body:
    return {"runId": (await agent.run())["runId"], "agent": "codex"}


async def _settle(agent: AgentClient) -> Body:
    reserved = await agent.call("reserve_work", **await _reserve(agent))
    used = {"usage": {"costUsd": 0.1}, "seconds": 3}
    return {"reservationId": reserved["reservationId"], "outcome": "completed", **used}


async def _decide_cap(agent: AgentClient) -> Body:
    paused = {**await _reserve(agent), "maximum": {"costUsd": 2}}
    cap = (await agent.call("reserve_work", **paused))["cap"]
    return {"capId": cap["capId"], "limit": 3}


async def _end_work(agent: AgentClient) -> Body:
    return {"capId": (await _decide_cap(agent))["capId"], "end": True}


async def _give_back(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    held = {"stepId": taken["stepId"], "attempt": taken["attempt"], "agent": "codex"}
    return {**held, "reason": "usage limit", "resumesAt": "2100-01-01T14:00:00Z"}


async def _give_job_back(agent: AgentClient) -> Body:
    held = await run_calls.fail_job(agent)
    return {"jobId": held["jobId"], "reason": "usage limit"}


async def _report(agent: AgentClient) -> Body:
    taken = await agent.take(await agent.plan())
    reserved = await agent.call("reserve_work", planId=taken["planId"], agent="codex")
    return {
        "sessionId": "worker-1",
        "agent": "codex",
        "state": "working",
        "host": "box",
        "until": "2100-01-01T14:00:00Z",
        "reason": "none",
        "planId": taken["planId"],
        "stepId": taken["stepId"],
        "lines": ["reading"],
        "reservationId": reserved["reservationId"],
    }


async def _report_on_job(agent: AgentClient) -> Body:
    job = await agent.job(await agent.run())
    named = {"sessionId": "worker-1", "agent": "codex", "state": "working"}
    return {**named, "runId": job["runId"], "jobId": job["jobId"]}


PREPARE: dict[str, Prepare] = {
    "create_research_plan": _create,
    "copy_plan": _copy,
    "get_next_step": _next,
    "submit_step_result": _submit,
    "get_step_context": _context,
    "request_user_review": _review,
    "submit_user_decision": _decide,
    "modify_plan": _modify,
    "get_plan_status": _status,
    "list_active_plans": _list,
    "get_research_context": _research,
    "store_research_output": _output,
    "list_skills": _list_skills,
    "start_skill": _start_skill,
    "complete_skill": _complete_skill,
    "extract_data": _extract,
    "ping": _nothing,
    "store_research": _store,
    "search_sources": _search,
    "get_artifact": _artifact,
    "list_dags": _nothing,
    "get_dag_map": run_calls.a_map,
    "start_run": run_calls.start_run,
    "copy_run": run_calls.copy_run,
    "get_next_job": run_calls.next_job,
    "submit_job_result": run_calls.job_result,
    "fail_job": run_calls.fail_job,
    "get_job_input": run_calls.input_by_id,
    "get_run_progress": run_calls.run_progress,
    "submit_stage_feedback": run_calls.feedback,
    "start_stage": run_calls.start_stage,
    "retry_failed": run_calls.retry_failed,
    "regenerate_document": run_calls.regenerate,
    "cancel_run": run_calls.cancel_run,
    "add_dag": run_calls.add_dag,
    "reserve_work": _reserve,
    "settle_work": _settle,
    "decide_cap": _decide_cap,
    "give_back": _give_back,
    "report_worker": _report,
    "comment": _comment,
    "draw_map": run_calls.drawn,
}

#: For a tool and an argument that the usual call of the tool lacks, a function that prepares a
#: call with this argument.
INSTEAD: dict[tuple[str, str], Prepare] = {
    ("extract_data", "artifactId"): _extract_stored,
    ("get_step_context", "part"): _read_on,
    ("get_step_context", "offset"): _read_on,
    ("get_research_context", "part"): _research_read_on,
    ("get_research_context", "offset"): _research_read_on,
    ("get_dag_map", "runId"): run_calls.run_map,
    ("get_dag_map", "planId"): run_calls.plan_map,
    ("get_run_progress", "planId"): run_calls.plan_progress,
    ("get_job_input", "documentKey"): run_calls.input_by_key,
    ("get_job_input", "stageSlug"): run_calls.input_by_key,
    ("draw_map", "runId"): run_calls.drawn_run,
    ("reserve_work", "runId"): _reserve_of_run,
    ("decide_cap", "end"): _end_work,
    ("give_back", "jobId"): _give_job_back,
    ("report_worker", "runId"): _report_on_job,
    ("report_worker", "jobId"): _report_on_job,
    ("draw_map", "dagSlug"): run_calls.drawn_dag,
}


async def valid_call(agent: AgentClient, tool: str, using: str | None = None) -> Body:
    """Return the arguments of a valid call, without idempotency key and session.

    If `using` names an argument that the usual call lacks, the returned call has this argument.
    """
    return await INSTEAD.get((tool, using or ""), PREPARE[tool])(agent)
