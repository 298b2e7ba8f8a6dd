"""A valid form for every route that accepts forms; each form changes data."""

from auth_env import make_token
from foreign_records import make_feedback_link, make_review_link, make_snapshot_link
from org_env import AgentClient
from waybook.app.operations.sharing import read_shared_plan
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Scope


async def valid_forms(agent: AgentClient) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the URL and the fields of a valid form for each route, without the CSRF token."""
    plan = await agent.plan()
    place = f"/plans/{plan['planId']}"
    fields = {"instructions": "Look it up twice.", "revision": "1"}
    added = {"action": "add_steps", "stepType": "search", "after": "1", **fields}
    changed = {"action": "update_step_instructions", **fields}
    other = await agent.plan()
    return {
        "/plans/{plan_id}/edit": (f"{place}/edit", added),
        "/plans/{plan_id}/copy": (f"{place}/copy", {"name": "Again", "from": "1"}),
        "/plans/{plan_id}/steps/{step_id}": (
            f"/plans/{other['planId']}/steps/{other['stepIds'][0]}",
            changed,
        ),
        "/comments/{subject_id}": (f"/comments/{plan['planId']}", {"text": "Is it?"}),
        "/plans/{plan_id}/cancel": await _cancellation(agent),
        "/decisions": ("/decisions", await _decision(agent)),
        "/decisions/selected": (
            "/decisions/selected",
            {"review": (await _decision(agent))["reviewId"], "back": "/inbox"},
        ),
        "/plans/{plan_id}/share": await _shared_plan(agent),
        "/act/{secret}/{decision}": await _action_link(agent),
        "/act/{secret}/feedback": (
            f"/act/{await make_feedback_link(agent, 'rita')}/feedback",
            {"feedback": "Go on."},
        ),
        **await _of_runs(agent),
        "/plans/new": ("/plans/new", {"name": "Rivers", "steps": "Read\nWrite", "step": "create"}),
        "/runs/new": (
            "/runs/new?dag=deep-research",
            {"name": "Rivers", "models": "a", "input:question": "Why?", "step": "start"},
        ),
        "/caps": ("/caps", await _cap(agent)),
        "/theme": ("/theme", {"theme": "dark"}),
        "/tokens": ("/tokens", {"act": "add_user", "name": "zoe", "scope": "plan:read"}),
    }


async def _cancellation(agent: AgentClient) -> tuple[str, dict[str, str]]:
    plan = await agent.plan()
    return f"/plans/{plan['planId']}/cancel", {"reason": "Not needed.", "revision": "1"}


async def _action_link(agent: AgentClient) -> tuple[str, dict[str, str]]:
    await make_token(agent, "rita", may=(Scope.REVIEW,), scopes=(Scope.PLAN_READ,))
    return f"/act/{await make_review_link(agent, 'rita')}/approve", {"feedback": "Fine."}


async def _shared_plan(agent: AgentClient) -> tuple[str, dict[str, str]]:
    plan_id, _ = await make_snapshot_link(agent)
    ctx = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    (link,) = (await read_shared_plan(ctx, plan_id)).links
    return f"/plans/{plan_id}/share", {"act": "revoke", "link": link.id}


async def _decision(agent: AgentClient) -> dict[str, str]:
    taken = await agent.take(await agent.plan())
    review = await agent.review(taken)
    named = {"planId": review["planId"], "reviewId": review["reviewId"]}
    return {**named, "decision": "approve", "back": "/inbox"}


async def _cap(agent: AgentClient) -> dict[str, str]:
    """Let a plan reach a cap; return the fields of the form that raises it."""
    plan = await agent.plan()
    limit = {"scope": "plan", "unit": "costUsd", "limit": 5}
    wanted = {"agent": "codex", "maximum": {"costUsd": 9}}
    paused = await agent.call("reserve_work", planId=plan["planId"], caps=[limit], **wanted)
    return {"capId": paused["cap"]["capId"], "limit": "10"}


async def _of_runs(agent: AgentClient) -> dict[str, tuple[str, dict[str, str]]]:
    done = await agent.run()
    await agent.work_off(done)
    form = {"runId": done["runId"], "stageSlug": "scope", "feedback": "Go on.", "models": "a"}
    again = await agent.run()
    await agent.submit_documents(await agent.job(again), "# A brief")
    job = await agent.job(await agent.run())
    failed = {"jobId": job["jobId"], "attempt": job["attempt"], "error": "No.", "retryable": False}
    await agent.call("fail_job", **failed)
    open_run = await agent.run()
    return {
        "/feedback": ("/feedback", form),
        "/rescue": ("/rescue", {"work": f"run:{job['runId']}:scope", "key": "k"}),
        "/runs/{run_id}/copy": (
            f"/runs/{again['runId']}/copy",
            {"name": "Again", "from": "scope", "models": "a"},
        ),
        "/runs/{run_id}/cancel": (f"/runs/{open_run['runId']}/cancel", {"reason": "No need."}),
    }
