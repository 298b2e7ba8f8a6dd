"""Data of another org: one of every kind, for tests of access across orgs."""

from collections.abc import Mapping

from run_calls import a_gathering
from tool_calls import MUTATING, PREPARE, a_call_of, a_late_result
from trust_worlds import a_token
from waybook.background import render_all_orgs
from waybook.store.research import embeddings
from worlds import Agent, World


async def belongings(world: World) -> Mapping[str, str]:
    """Return ids of the other org's data, one of every kind."""
    world.neighbour_may_change = True
    ned = world.neighbour
    reviewed = await ned.take(world.neighbours_plan)
    review = await ned.call("request_user_review", stepId=reviewed["stepId"], summary="Look.")
    execution = await ned.call("start_skill", name="survey", sessionId="theirs")
    research = await ned.call("store_research", **await a_call_of(ned, "store_research"))
    other = await ned.take(await ned.plan(2, name="Their other"))
    delivered = await ned.call(
        "store_research_output", **await a_call_of(ned, "store_research_output")
    )
    return {
        "plan": world.neighbours_plan["planId"],
        "step under review": reviewed["stepId"],
        "review": review["reviewId"],
        "skill execution": execution["skillExecutionId"],
        "running step": other["stepId"],
        "artifact": research["artifactId"],
        "source": research["sourceIds"][0],
        "plan at work": other["planId"],
        "late result": await a_late_result(ned),
        "output": delivered["outputId"],
        "token": (await a_token(ned)).token.id,
        **await _their_run(ned),
    }


async def _their_run(ned: Agent) -> dict[str, str]:
    """Create a run in its second stage, with a job in progress and a rendered document."""
    job = await a_gathering(ned)
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


async def everything(agent: Agent) -> None:
    """Fill every table an agent can fill: each tool once, and some failures."""
    for tool in PREPARE:
        args = await a_call_of(agent, tool)
        if tool in MUTATING:
            args = {"sessionId": f"doing {tool}", "idempotencyKey": "once", **args}
        await agent.call(tool, **args)
    plan = await agent.plan()
    for session in ("first", "second"):
        await agent.call("get_research_context", planId=plan["planId"], sessionId=session)
    job = await agent.job(await agent.run())
    held = {"jobId": job["jobId"], "attempt": job["attempt"], "content": "# Half"}
    await agent.call("submit_job_result", **held, continues=True)
    await agent.refused("submit_job_result", **{**held, "attempt": job["attempt"] + 1})
    await _passages_of_every_kind(agent)
    await render_all_orgs(agent.dispatcher.services)
    await agent.dispatcher.calls.flush()


async def _passages_of_every_kind(agent: Agent) -> None:
    """Create a passage deleted for a later version, and one that is set aside."""
    args = await a_call_of(agent, "store_research")
    await agent.call("store_research", **{**args, "content": "An earlier version."})
    stored = await agent.call("store_research", **{**args, "content": "A later version."})
    aside = embeddings.quarantine_statement(
        [(stored["artifactId"], 1)], model="none", backend="portable"
    )
    async with agent.dispatcher.services.database.org_transaction(agent.org_id) as tx:
        await tx.commit(aside)
