"""Actors of the demo's run: three agents with three sessions each, and a person."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from waybook.app.queries.runs.run_list import resolve_run
from waybook.app.request.short_ids import full_id_of
from waybook.background import render_orgs
from waybook.cli.demo import script
from waybook.cli.demo.environment import ENGINE
from waybook.cli.demo.plan_agents import agent
from waybook.cli.demo.scene import Actor, DemoContext
from waybook.cli.terminal.errors import ToolError
from waybook.core.decision_context import Channel
from waybook.core.short_ids import IdKind

POLL_MINUTES = 4
WORK_MINUTES = (4, 6, 5)
LATE_RESULT_MINUTES = 24

MODELS = {"ada": "alpha", "ben": "beta", "cleo": "gamma"}
Job = dict[str, Any]
Handling = Callable[[Actor, Job], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AgentSession:
    """One session of an agent, with its start delay in minutes.

    The delays differ, so that events always happen in the same order.
    """

    name: str
    session: str
    after: float = 0


def agent_sessions() -> list[AgentSession]:
    sessions = [(name, name if n == 1 else f"{name}-{n}") for n in (1, 2, 3) for name in MODELS]
    return [AgentSession(*named, after=number / 20) for number, named in enumerate(sessions)]


def scripted_failures() -> dict[tuple[str, str], Handling]:
    """Return the scripted incidents by model and document. Each incident happens once."""
    return {
        ("beta", "business_case"): fail_job,
        ("gamma", "technical_feasibility_assessment"): submit_in_parts,
        ("beta", "synthesis_pairwise_feature_spec"): crash_and_submit_late,
    }


async def start_run(scene: DemoContext) -> None:
    me = agent(scene, "ada")
    models = list(MODELS.values())
    compiled_dag = await me.call("get_dag_map", dagSlug="dialectic", models=models)
    jobs = sum(stage["expected"]["total"] for stage in compiled_dag["stages"])
    steps = sum(len(stage["order"]) for stage in compiled_dag["stages"])
    started = await me.call(
        "start_run", dagSlug="dialectic", name=script.RUN_NAME, input=script.REQUEST, models=models
    )
    scene.run_id = await full_id_of(scene.call, IdKind.RUN, started["runId"], "runId")
    stages = len(compiled_dag["stages"])
    me.say(f"starts a run with three models: {stages} stages, {steps} steps, {jobs} jobs")


async def work(
    scene: DemoContext, write_context: AgentSession, once: dict[tuple[str, str], Handling]
) -> None:
    me = agent(scene, write_context.name, write_context.session)
    await scene.clock.sleep(write_context.after)
    minutes = WORK_MINUTES[len(write_context.session) % len(WORK_MINUTES)]
    while True:
        job = await me.call("get_next_job", runId=scene.run_id, modelId=MODELS[write_context.name])
        if job["status"] == "run_complete":
            scene.run_complete = True
            return
        if job["status"] != "job_ready":
            await scene.clock.sleep(POLL_MINUTES)
            continue
        _tell_taking(me, job)
        await scene.clock.sleep(minutes)
        handed = (job["modelId"], job["documents"][0]["documentKey"])
        await once.pop(handed, submit_result)(me, job)


def _tell_taking(me: Actor, job: Job) -> None:
    if job["jobId"] == me.scene.abandoned_jobs:
        say_as_agent(me, f"takes over the abandoned job: {job['stepName']}")
        me.scene.abandoned_jobs = ""
    elif job["attempt"] > 1:
        say_as_agent(me, f"retries: {job['stepName']} (attempt {job['attempt']})")
    elif "soFar" in job:
        say_as_agent(me, f"writes the rest of: {job['stepName']}")


async def replacement(scene: DemoContext) -> None:
    await scene.clock.sleep(0.5)
    while not scene.abandoned_jobs:
        await scene.clock.sleep(POLL_MINUTES)
    await scene.clock.sleep(POLL_MINUTES)
    say_as_agent(agent(scene, "ben", "ben-4"), "starts as a replacement for the killed agent")
    await work(scene, AgentSession("ben", "ben-4"), {})


async def render_documents(scene: DemoContext) -> None:
    services = scene.app.services
    await scene.clock.sleep(0.6)
    while not scene.run_complete or services.render_requested.is_set():
        if services.render_requested.is_set():
            await render_orgs(services, services.render_requested.take())
        await scene.clock.sleep(1)


async def give_feedback(scene: DemoContext) -> None:
    me = Actor(name="mira", scene=scene, channel=Channel.DASHBOARD)
    await scene.clock.sleep(0.7)
    for stage, feedback in script.RUN_FEEDBACK.items():
        while not await _awaits(scene, stage):
            await scene.clock.sleep(POLL_MINUTES)
        await scene.clock.sleep(4)
        args = {"stageSlug": stage, "feedback": feedback}
        answer = await me.call("submit_stage_feedback", runId=scene.run_id, **args)
        me.say(f"feedback on {stage}: “{feedback}”", strong=True)
        scene.jobs["mira"] = scene.jobs.get("mira", 0) + 1
        for begun in answer["started"]:
            jobs = sum(step["jobs"] for step in begun["openSteps"])
            ready = "1 job is ready" if jobs == 1 else f"{jobs} jobs are ready"
            scene.feed.say(ENGINE, f"stage {begun['stageSlug']} starts: {ready}")


async def _awaits(scene: DemoContext, stage: str) -> bool:
    run = await resolve_run(scene.call, scene.run_id)
    return run.awaiting is not None and run.awaiting.slug == stage


def say_as_agent(me: Actor, message: str, *, strong: bool = False) -> None:
    """Log a line under the name of the session, because an agent has several."""
    me.scene.feed.say(me.session or me.name, message, strong=strong)


async def submit_result(me: Actor, job: Job) -> None:
    """Submit the document. If the job continues a document, submit only the rest."""
    begun = str(job.get("soFar", ""))
    await _submit(me, job, script.document_for(job).removeprefix(begun))


async def fail_job(me: Actor, job: Job) -> None:
    failed = {"error": "the model timed out", "retryable": True}
    await me.call("fail_job", jobId=job["jobId"], attempt=job["attempt"], **failed)
    say_as_agent(me, f"reports a failure: {job['stepName']} ({failed['error']})", strong=True)


async def submit_in_parts(me: Actor, job: Job) -> None:
    text = script.document_for(job)
    await _submit(me, job, text[: len(text) // 2], continues=True)
    say_as_agent(me, f"submits half of: {job['stepName']}", strong=True)


async def crash_and_submit_late(me: Actor, job: Job) -> None:
    """Kill the agent's session during a job, and submit the result late."""
    say_as_agent(me, f"is killed while working on: {job['stepName']}", strong=True)
    scene = me.scene
    scene.abandoned_jobs = job["jobId"]
    scene.later.append(scene.clock.add_actor(_wakes_up(me, job)))
    myself = asyncio.current_task()
    if myself is not None:
        myself.cancel()
    await scene.clock.sleep(1)


async def _wakes_up(me: Actor, job: Job) -> None:
    await me.scene.clock.sleep(LATE_RESULT_MINUTES)
    with contextlib.suppress(ToolError):
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        await me.call(
            "submit_job_result", **held, documents=[{"content": script.document_for(job)}]
        )
        raise RuntimeError("a late result was accepted")
    say_as_agent(me, "submits late: refused, another agent has the job now", strong=True)


async def _submit(me: Actor, job: Job, text: str, **more: object) -> None:
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    answer = await me.call("submit_job_result", **held, documents=[{"content": text}], **more)
    me.scene.jobs[me.name] = me.scene.jobs.get(me.name, 0) + 1
    stage = answer["stage"]
    if stage["status"] == "completed":
        steps = stage["progress"]["totalSteps"]
        message = f"stage {stage['stageSlug']} is complete: {steps} steps"
        me.scene.feed.say(ENGINE, message, strong=True)
