"""Valid calls of the tools for runs, with the records that the calls need."""

from org_env import AgentClient, Body
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.store.driver.queries import new_uuid


async def a_map(_: AgentClient) -> Body:
    return {"dagSlug": "deep-research", "models": ["a", "b"], "detail": True}


async def run_map(agent: AgentClient) -> Body:
    return {"runId": (await agent.run())["runId"]}


async def drawn(agent: AgentClient) -> Body:
    plan_id = (await agent.plan())["planId"]
    return {"planId": plan_id, "width": 600, "seen": "nothing", "detail": True}


async def drawn_run(agent: AgentClient) -> Body:
    return {"runId": (await agent.run())["runId"]}


async def drawn_dag(_: AgentClient) -> Body:
    return {"dagSlug": "deep-research"}


async def plan_map(agent: AgentClient) -> Body:
    return {"planId": (await agent.plan())["planId"]}


async def start_run(agent: AgentClient) -> Body:
    await agent.run()  # Otherwise, the call would also store the built-in workflow definition.
    named = {"dagSlug": "deep-research", "name": "Lakes"}
    return {**named, "input": {"question": "Which lake is deepest?"}, "models": ["a", "b"]}


async def copy_run(agent: AgentClient) -> Body:
    run_id = (await agent.run())["runId"]
    return {"runId": run_id, "fromStage": "scope", "name": "Again", "models": ["a"]}


async def next_job(agent: AgentClient) -> Body:
    run = await agent.run()
    filters = {"modelId": "a", "jobTypes": ["PLAN", "EXECUTE"], "another": False}
    return {"runId": run["runId"], **filters, "waitSeconds": 0}


async def job_result(agent: AgentClient) -> Body:
    job = await agent.job(await agent.run())
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    return {
        **held,
        "documents": [{"documentKey": "research_brief", "modelId": "a", "content": "# A brief"}],
        "continues": False,
        "takeNext": True,
        "usage": {"inputTokens": 100, "outputTokens": 20, "costUsd": 0.01, "model": "m"},
    }


async def fail_job(agent: AgentClient) -> Body:
    job = await agent.job(await agent.run())
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    return {**held, "error": "The line is dead.", "retryable": True}


async def make_gathering(agent: AgentClient) -> Body:
    """Return a job of the second stage, which has a document and a person's feedback as inputs."""
    run = await agent.run()
    await agent.work_off(run)
    await agent.feedback(run, "scope", "Look at lakes alone.")
    return await agent.job(run)


async def input_by_id(agent: AgentClient) -> Body:
    job = await make_gathering(agent)
    brief = next(job_input for job_input in job["inputs"] if "documentId" in job_input)
    return {
        "jobId": job["jobId"],
        "documentId": brief["documentId"],
        "offset": 1,
        "attempt": job["attempt"],
    }


async def input_by_key(agent: AgentClient) -> Body:
    job = await make_gathering(agent)
    return {"jobId": job["jobId"], "documentKey": "feedback", "stageSlug": "scope", "offset": 1}


async def run_progress(agent: AgentClient) -> Body:
    return {"runId": (await agent.run())["runId"], "detail": True}


async def plan_progress(agent: AgentClient) -> Body:
    return {"planId": (await agent.plan())["planId"], "detail": True}


async def feedback(agent: AgentClient) -> Body:
    run = await agent.run()
    await agent.work_off(run)
    args = {"runId": run["runId"], "stageSlug": "scope", "feedback": "Go on."}
    return {**args, "models": ["a", "b", "c"], "place": "app"}


async def start_stage(agent: AgentClient) -> Body:
    return {"runId": (await agent.run())["runId"], "stageSlug": "scope", "models": ["a"]}


async def cancel_run(agent: AgentClient) -> Body:
    return {"runId": (await agent.run())["runId"], "reason": "The question has changed."}


async def retry_failed(agent: AgentClient) -> Body:
    job = await agent.job(await agent.run())
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("fail_job", **held, error="No.", retryable=False)
    return {"runId": job["runId"], "stageSlug": "scope", "stepKey": "scope"}


async def regenerate(agent: AgentClient) -> Body:
    run = await agent.run()
    done = await agent.submit_documents(await agent.job(run), "# A brief")
    return {"documentId": done["documentIds"][0], "following": True}


async def add_dag(_: AgentClient) -> Body:
    return {
        "definition": make_definition(
            f"views-{new_uuid()}", make_stage("views", make_recipe_step("view"))
        )
    }
