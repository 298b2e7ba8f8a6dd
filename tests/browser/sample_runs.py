"""Realistic runs: `make_busy_run` for four models, and `make_large_run` with 500 steps."""

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage

MODELS = ("claude-opus-4", "gpt-5", "gemini-2.5-pro", "llama-4")


async def make_busy_run(world: OrgEnv) -> Body:
    """Create a dialectic run for four models; its third stage has a failed and two claimed jobs."""
    agent = world.agent
    name = "Billing rewrite: compare the proposals for the tax engine of all four regions"
    run = await agent.run("dialectic", MODELS, name=name, input="Build a lighthouse.")
    number = 0
    for stage in ("thesis", "antithesis"):
        while (job := await _next(agent, run))["status"] == "job_ready":
            number += 1
            world.clock.advance(seconds=20 + number % 7 * 30)
            used = {"inputTokens": 9_000 + number, "outputTokens": 700, "costUsd": 0.03}
            table = f"| Risk | Share |\n|---|---|\n| {number} | 5 % |\n"
            text = f"# {job['stepName']}\n\nBy *{job['modelId']}*.\n\n{table}"
            await agent.submit_documents(job, text, usage=used)
        await agent.feedback(run, stage, "Prefer the smallest first release; leave tax for later.")
    for number in range(3):
        await agent.submit_documents(await _next(agent, run), f"# Part {number}")
    failing = await _next(agent, run)
    held = {"jobId": failing["jobId"], "attempt": failing["attempt"]}
    error = "The model refused: the context of 210,000 tokens exceeds its limit of 200,000."
    await agent.call("fail_job", **held, error=error, retryable=False)
    for session in ("worker-eu-1", "worker-eu-2"):
        await agent.call("get_next_job", runId=run["runId"], sessionId=session)
        world.clock.advance(minutes=4)
    await render_all(agent)
    return {**run, "failed": failing}


async def _next(agent: AgentClient, run: Body) -> Body:
    return await agent.call("get_next_job", runId=run["runId"])


async def make_large_run(agent: AgentClient, steps: int = 500) -> Body:
    """Create a run with this many steps in one stage; 40 steps are done, and one has failed."""
    keys = [f"part-{number:03}" for number in range(steps)]
    made = [
        make_recipe_step(key, "all_to_one", name=f"Translate chapter {key[5:]} of the manual")
        for key in keys
    ]
    # The edges form ten parallel chains.
    edges = list(zip(keys, keys[10:], strict=False))
    stage = make_stage("work", *made, edges=edges)
    await agent.call("add_dag", definition=make_definition("large", stage))
    run = await agent.run("large", "ab", name="Translate the manual")
    for _ in range(40):
        await agent.submit_documents(await _next(agent, run))
    failing = await _next(agent, run)
    await agent.fail_job(failing, "The source is gone.")
    await render_all(agent)
    return {**run, "failed": failing}
