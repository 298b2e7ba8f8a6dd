"""Records of another org, one of every kind, for tests of access across orgs."""

import secrets
from collections.abc import Mapping
from datetime import timedelta

from auth_env import make_token
from org_env import AgentClient, Body, OrgEnv
from run_calls import make_gathering
from tool_calls import MUTATING, PREPARE, submit_late_result, valid_call
from waybook.accounts.model import hash_token
from waybook.app.operations.sharing import create_snapshot_link
from waybook.app.request.request_context import RequestContext
from waybook.background import render_all_orgs
from waybook.store import links
from waybook.store.driver.queries import new_uuid
from waybook.store.links import LinkKind
from waybook.store.research import embeddings


async def create_foreign_records(world: OrgEnv) -> Mapping[str, str]:
    """Create records of every kind in the other org; return their ids."""
    world.other_org_may_change = True
    ned = world.other_org
    reviewed = await ned.take(world.other_org_plan)
    review = await ned.call("request_user_review", stepId=reviewed["stepId"], summary="Look.")
    execution = await ned.call("start_skill", name="survey", sessionId="theirs")
    research = await ned.call("store_research", **await valid_call(ned, "store_research"))
    other = await ned.take(await ned.plan(2, name="Their other"))
    delivered = await ned.call(
        "store_research_output", **await valid_call(ned, "store_research_output")
    )
    paused = {**await valid_call(ned, "reserve_work"), "maximum": {"costUsd": 2}}
    reserved = await ned.call("reserve_work", planId=other["planId"], agent="codex")
    return {
        "cap": (await ned.call("reserve_work", **paused))["cap"]["capId"],
        "reservation": reserved["reservationId"],
        "plan": world.other_org_plan["planId"],
        "step under review": reviewed["stepId"],
        "review": review["reviewId"],
        "skill execution": execution["skillExecutionId"],
        "running step": other["stepId"],
        "artifact": research["artifactId"],
        "source": research["sourceIds"][0],
        "plan at work": other["planId"],
        "late result": await submit_late_result(ned),
        "output": delivered["outputId"],
        "token": (await make_token(ned)).token.id,
        **await _their_run(ned),
    }


async def _their_run(ned: AgentClient) -> dict[str, str]:
    """Create a run in its second stage, with a job in progress and a rendered document."""
    job = await make_gathering(ned)
    await render_all_orgs(ned.dispatcher.services)
    scope = (await ned.progress(job))["stages"][0]
    return {
        "run": job["runId"],
        "running job": job["jobId"],
        "document": next(
            document["documentId"] for document in job["inputs"] if "documentId" in document
        ),
        "rendered document": scope["documents"][0]["resourceId"],
    }


async def all_foreign_records(agent: AgentClient) -> None:
    """Create rows in every table that tools write to: call every tool, and cause failures."""
    for tool in PREPARE:
        args = await valid_call(agent, tool)
        if tool in MUTATING:
            args = {"sessionId": f"doing {tool}", "idempotencyKey": "once", **args}
        await agent.call(tool, **args)
    plan = await agent.plan()
    for session in ("first", "second"):
        await agent.call("get_research_context", planId=plan["planId"], sessionId=session)
    job = await agent.job(await agent.run())
    held = {"jobId": job["jobId"], "attempt": job["attempt"], "documents": [{"content": "# Half"}]}
    await agent.call("submit_job_result", **held, continues=True)
    await agent.refused("submit_job_result", **{**held, "attempt": job["attempt"] + 1})
    await _passages_of_every_kind(agent)
    await make_review_link(agent)
    await make_feedback_link(agent)
    await render_all_orgs(agent.dispatcher.services)
    await agent.dispatcher.calls.flush()


async def make_review_link(agent: AgentClient, for_user: str | None = None) -> str:
    """Request a review and create a link to decide it; return the secret of the link.

    If `for_user` is given, the review is decided as this user, whose account must exist.
    """
    step = await agent.take(await agent.plan(1))
    review = await agent.call("request_user_review", stepId=step["stepId"], summary="Look.")
    target = {"plan_id": review["planId"], "review_id": review["reviewId"]}
    return await _insert_link(agent, {"kind": LinkKind.REVIEW, **target}, for_user)


async def make_feedback_link(agent: AgentClient, for_user: str | None = None) -> str:
    """Complete a stage of a run, and create a link for feedback on it; return its secret."""
    run = await agent.run()
    await agent.work_off(run)
    return await make_link_of_run(agent, run, for_user)


async def make_link_of_run(agent: AgentClient, run: Body, for_user: str | None = None) -> str:
    """Create a link for feedback on the first stage of a run; return the link's secret."""
    target = {"kind": LinkKind.FEEDBACK, "run_id": run["runId"], "stage": "scope"}
    return await _insert_link(agent, target, for_user)


async def _insert_link(agent: AgentClient, target: Body, for_user: str | None) -> str:
    services, link_id = agent.dispatcher.services, new_uuid()
    secret = secrets.token_urlsafe(32)
    now = await services.database.read_now(agent.org_id)
    statements = links.insert_action_link(
        target,
        id=link_id,
        hash=hash_token(secret),
        for_user=for_user or agent.caller.user,
        needs_account=for_user is not None,
        now=now,
        expires_at=now + timedelta(days=7),
    )
    async with services.database.org_transaction(agent.org_id) as tx:
        await tx.commit(*statements)
    return secret


async def make_snapshot_link(agent: AgentClient) -> tuple[str, str]:
    """Share a snapshot of a plan by a link; return the plan's id and the link's secret."""
    plan_id = (await agent.plan(2))["planId"]
    ctx = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    return plan_id, await create_snapshot_link(ctx, plan_id, 7)


async def _passages_of_every_kind(agent: AgentClient) -> None:
    """Create an indexed passage of an old artifact version, and one that indexing skips."""
    args = await valid_call(agent, "store_research")
    await agent.call("store_research", **{**args, "content": "An earlier version."})
    stored = await agent.call("store_research", **{**args, "content": "A later version."})
    aside = embeddings.quarantine_statement(
        [(stored["artifactId"], 1)], model="none", backend="portable"
    )
    async with agent.dispatcher.services.database.org_transaction(agent.org_id) as tx:
        await tx.commit(aside)
