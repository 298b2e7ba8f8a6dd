"""The story of the demo: what each scripted agent and the person do.

In the plan, three agents work, one of them killed during a step. In the run, each has three
sessions. A person reviews both.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any

import yaml
from rich.text import Text

from waybook.app.dispatcher import Dispatcher
from waybook.app.queries.inbox import list_reviews
from waybook.app.queries.work_list import resolve_run
from waybook.app.registry import TOOLS
from waybook.app.request.request_context import RequestContext
from waybook.app.request.short_ids import full_id_of
from waybook.application import BasicApplication
from waybook.background import render_orgs
from waybook.cli.demo.environment import Show, SimulatedClock
from waybook.cli.terminal.errors import ToolError
from waybook.core.decision_context import Channel
from waybook.core.short_ids import IdKind

STORY: Mapping[str, Any] = yaml.safe_load(
    (files("waybook.cli.demo") / "story.yaml").read_text("utf-8")
)
DOCUMENTS = {
    key: group["opening"] + text
    for group in STORY["documents"]
    for key, text in group["texts"].items()
}


def document_for(job: Mapping[str, Any]) -> str:
    """Return the document that a job of the run asks for, in the opinion of its model."""
    model, opinions = job["modelId"], STORY["opinions"]
    key = job["documents"][0]["documentKey"] if job["documents"] else ""
    opinion = opinions[model]
    if job["jobType"] == "PLAN" or key == "comparison_vector":
        notes = {
            "title": STORY["run"]["name"],
            "request": STORY["run"]["input"],
            "document": key,
            "goals": ["no report is lost", "a failed run is seen at once"],
            "look at": [opinion["doubt"], opinion["risk"]],
        }
        return json.dumps(notes, ensure_ascii=False, indent=1)
    authors = [read["modelId"] for read in job["inputs"] or () if read.get("modelId") in opinions]
    other = next((author for author in authors if author != model), model)
    text = DOCUMENTS.get(key, STORY["otherDocuments"])
    theirs = opinions[other]["idea"]
    body = text.format(**opinion, whose=other, theirs=theirs, agreed=STORY["agreed"])
    return f"# {key.replace('_', ' ').capitalize()}\n\n{body}"


_ENGINE = "waybook"
STYLES = {"ada": "cyan", "ben": "blue", "cleo": "magenta", "mira": "green", _ENGINE: "bold"}
MODELS = {"ada": "alpha", "ben": "beta", "cleo": "gamma"}
_REVIEW_POLL_MINUTES = 3
POLL_MINUTES = 4
_JOB_MINUTES = (4, 6, 5)
_LATE_RESULT_MINUTES = 24
_REVIEWED_STEP = "Agree on the recommendation"

Reply = dict[str, Any]


@dataclass
class DemoContext:
    app: BasicApplication
    clock: SimulatedClock
    plan_id: str = ""
    run_id: str = ""
    run_complete: bool = False
    abandoned_job: str = ""
    #: The log of events.
    lines: list[Text] = field(default_factory=list)
    listener: Callable[[Text], None] | None = None

    @cached_property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.app.services, self.app.calls)

    @property
    def call(self) -> RequestContext:
        return RequestContext(services=self.app.services, caller=self.app.caller(Channel.CLI))

    def say(self, who: str, message: str, *, strong: bool = False) -> None:
        line = Text.assemble(
            (f"{self.clock.now:%H:%M} ", "dim"),
            (f"{who:<8}", STYLES[who.partition("-")[0]]),
            (message, "bold" if strong else ""),
        )
        self.lines.append(line)
        self.clock.pause_to_read()
        if self.listener is not None:
            self.listener(line)


@dataclass(frozen=True)
class Actor:
    name: str
    scene: DemoContext
    session: str | None = None
    channel: Channel = Channel.MCP

    async def call(self, tool: str, **arguments: object) -> Reply:
        caller = replace(self.scene.app.caller(self.channel), user=self.name)
        if self.session is not None and "session_id" in TOOLS[tool].arguments.model_fields:
            arguments["sessionId"] = self.session
        answer = await self.scene.dispatcher.dispatch(caller, tool, arguments)
        if answer.is_error:
            raise ToolError(answer.body["error"])  # type: ignore[arg-type]  # an error is an object
        return answer.body

    def say(self, message: str, *, strong: bool = False) -> None:
        """Log a line under the name of the session, because an agent has several."""
        self.scene.say(self.session or self.name, message, strong=strong)


def agent(scene: DemoContext, name: str, session: str | None = None) -> Actor:
    return Actor(name=name, scene=scene, session=session or name)


async def play_plan(scene: DemoContext, show: Show) -> None:
    ada = agent(scene, "ada")
    made = await ada.call("create_research_plan", **STORY["plan"])
    scene.plan_id = await full_id_of(scene.call, IdKind.PLAN, made["planId"], "planId")
    steps, conditions = STORY["plan"]["steps"], STORY["plan"]["branchingConditions"]
    ada.say(f"creates a plan: {len(steps)} steps, {len(conditions)} branching conditions")
    await scene.clock.run([part(scene) for part in (_ada, _ben, _cleo, _mira)], show)


async def _ada(scene: DemoContext) -> None:
    me = agent(scene, "ada")
    for _ in range(3):
        await _complete_step(me)
    taken = await _claim_step(me)
    result = STORY["work"][_REVIEWED_STEP]
    for summary in (STORY["review"], STORY["reviewAgain"]):
        while taken["status"] != "step_ready":
            await scene.clock.sleep(_REVIEW_POLL_MINUTES)
            taken = await me.call("get_next_step", planId=scene.plan_id)
            if taken["status"] == "step_ready":
                me.say(f"claims it again, with the feedback (attempt {taken['attempt']})")
        await scene.clock.sleep(result["minutes"])
        args = {"summary": summary, "resultSummary": result["result"]}
        await me.call("request_user_review", stepId=taken["stepId"], **args)
        me.say("asks a person to review it; the plan waits")
        taken = {"status": "awaiting_review"}


async def _ben(scene: DemoContext) -> None:
    """Act as ben, who loses a connection and takes over the abandoned step."""
    me = agent(scene, "ben")
    await scene.clock.sleep(1)
    for connection_drops in (True, False, False):
        await _complete_step(me, connection_drops=connection_drops)
    done: set[str] = set()
    while _REVIEWED_STEP not in done:
        await scene.clock.sleep(_REVIEW_POLL_MINUTES)
        status = await me.call("get_plan_status", planId=scene.plan_id)
        done = {step["title"] for step in status["completedSteps"]}
    await _complete_step(me)
    scene.say(_ENGINE, "the plan is complete", strong=True)


async def _cleo(scene: DemoContext) -> None:
    """Act as cleo, who is killed during the second step, and returns in a new session."""
    me, clock = agent(scene, "cleo"), scene.clock
    await clock.sleep(2)
    await _complete_step(me)
    taken = await _claim_step(me)
    await clock.sleep(4)
    await me.call("get_step_context", stepId=taken["stepId"])
    await clock.sleep(2)
    me.say("is killed while working on it", strong=True)
    await clock.sleep(31)
    me = agent(scene, "cleo", "cleo-2")
    open_plans = await me.call("list_active_plans")
    scene.say("cleo", f"returns in a new conversation and finds {open_plans['total']} open plan")
    status = await me.call("get_plan_status", planId=scene.plan_id)
    stalled = status["stalledSteps"][0]
    message = f"step {stalled['stepOrder']} is stalled: no heartbeat for {stalled['minutes']} min"
    scene.say(_ENGINE, message, strong=True)
    context = await me.call("get_research_context", planId=scene.plan_id)
    done = sum(step["status"] == "completed" for step in context["steps"])
    scene.say("cleo", f"reads the plan's context: question, {done} results, latest events")
    await _complete_step(me)


async def _mira(scene: DemoContext) -> None:
    """Act as the reviewer: send the first draft back, approve the second."""
    me = Actor(name="mira", scene=scene, channel=Channel.DASHBOARD)
    feedback = STORY["planFeedback"]
    for pause, decision, said in (
        (5, {"decision": "modify", "feedback": feedback}, f"requests changes: “{feedback}”"),
        (4, {"decision": "approve"}, "approves it"),
    ):
        while not await list_reviews(scene.call, scene.plan_id):
            await scene.clock.sleep(_REVIEW_POLL_MINUTES)
        await scene.clock.sleep(pause)
        await me.call("submit_user_decision", planId=scene.plan_id, **decision)
        me.say(said, strong=True)


async def _claim_step(me: Actor) -> Reply:
    taken = await me.call("get_next_step", planId=me.scene.plan_id)
    if earlier := taken.get("takenOver"):
        again = f"{taken['title']} (attempt {taken['attempt']})"
        me.scene.say(me.name, f"takes over from {earlier['heldBy']}: {again}", strong=True)
    else:
        me.scene.say(me.name, f"claims: {taken['title']}")
    return taken


async def _complete_step(me: Actor, *, connection_drops: bool = False) -> None:
    """Claim a step, work on it, and submit its result, twice after a lost connection."""
    scene, taken = me.scene, await _claim_step(me)
    work = STORY["work"][taken["title"]]
    passed = 0
    for heartbeat in work.get("heartbeats", ()):
        await scene.clock.sleep(heartbeat - passed)
        passed = heartbeat
        await me.call("get_step_context", stepId=taken["stepId"])
    await scene.clock.sleep(work["minutes"] - passed)
    args = {
        "stepId": taken["stepId"],
        "attempt": taken["attempt"],
        "resultSummary": work["result"],
        "confidence": work["confidence"],
        "idempotencyKey": f"{me.session}-{taken['stepId']}-{taken['attempt']}",
    }
    answer = await me.call("submit_step_result", **args)
    confidence = f"{work['confidence'] * 100:.0f} %"
    scene.say(me.name, f"completes: {taken['title']} (confidence {confidence})")
    for branch in answer["branches"]:
        added, skipped = (len(branch.get(name, ())) for name in ("addedStepIds", "skippedStepIds"))
        what = f"{added} steps added" if added else f"{skipped} step skipped"
        scene.say(_ENGINE, f"condition {branch['expression']} is true: {what}", strong=True)
    if connection_drops and (await me.call("submit_step_result", **args)).get("replayed"):
        me.say("submits it again after a network timeout: counted once", strong=True)


async def play_run(scene: DemoContext, show: Show) -> None:
    await start_run(scene)
    #: What happens once to a job, by model and document.
    once = {
        ("beta", "business_case"): "fails",
        ("gamma", "technical_feasibility_assessment"): "is cut",
        ("beta", "synthesis_pairwise_feature_spec"): "is late",
    }
    sessions = [(name, name if n == 1 else f"{name}-{n}") for n in (1, 2, 3) for name in MODELS]
    # The sessions start one after the other, so that events always happen in the same order.
    parts = [
        _work_on_jobs(agent(scene, *named), number / 20, once)
        for number, named in enumerate(sessions)
    ]
    parts += [_replacement(scene), render_documents(scene), give_feedback(scene)]
    await scene.clock.run(parts, show)


async def start_run(scene: DemoContext) -> None:
    me, models = agent(scene, "ada"), list(MODELS.values())
    stages = (await me.call("get_dag_map", dagSlug="dialectic", models=models))["stages"]
    jobs = sum(stage["expected"]["total"] for stage in stages)
    steps = sum(len(stage["order"]) for stage in stages)
    started = await me.call("start_run", dagSlug="dialectic", models=models, **STORY["run"])
    scene.run_id = await full_id_of(scene.call, IdKind.RUN, started["runId"], "runId")
    me.say(f"starts a run with three models: {len(stages)} stages, {steps} steps, {jobs} jobs")


async def _work_on_jobs(me: Actor, after: float, once: dict[tuple[str, str], str]) -> None:
    scene, session = me.scene, me.session or me.name
    await scene.clock.sleep(after)
    minutes = _JOB_MINUTES[len(session) % len(_JOB_MINUTES)]
    while True:
        job = await me.call("get_next_job", runId=scene.run_id, modelId=MODELS[me.name])
        if job["status"] == "run_complete":
            scene.run_complete = True
            return
        if job["status"] != "job_ready":
            await scene.clock.sleep(POLL_MINUTES)
            continue
        name = job["stepName"]
        if job["jobId"] == scene.abandoned_job:
            me.say(f"takes over the abandoned job: {name}")
            scene.abandoned_job = ""
        elif job["attempt"] > 1:
            me.say(f"retries: {name} (attempt {job['attempt']})")
        elif "soFar" in job:
            me.say(f"writes the rest of: {name}")
        await scene.clock.sleep(minutes)
        text = document_for(job)
        match once.pop((job["modelId"], job["documents"][0]["documentKey"]), None):
            case "fails":
                failed = {"error": "the model timed out", "retryable": True}
                await me.call("fail_job", jobId=job["jobId"], attempt=job["attempt"], **failed)
                me.say(f"reports a failure: {name} ({failed['error']})", strong=True)
            case "is cut":
                await submit_job(me, job, text[: len(text) // 2], continues=True)
                me.say(f"submits half of: {name}", strong=True)
            case "is late":
                me.say(f"is killed while working on: {name}", strong=True)
                scene.abandoned_job = job["jobId"]
                await scene.clock.sleep(_LATE_RESULT_MINUTES)
                with contextlib.suppress(ToolError):
                    await submit_job(me, job, text)
                    raise RuntimeError("a late result was accepted")
                me.say("submits late: refused, another agent has the job now", strong=True)
                return
            case _:
                await submit_job(me, job, text.removeprefix(job.get("soFar", "")))


async def submit_job(me: Actor, job: Reply, text: str, **more: object) -> None:
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    answer = await me.call("submit_job_result", **held, documents=[{"content": text}], **more)
    stage = answer["stage"]
    if stage["status"] == "completed":
        steps = stage["progress"]["totalSteps"]
        me.scene.say(_ENGINE, f"stage {stage['stageSlug']} is complete: {steps} steps", strong=True)


async def _replacement(scene: DemoContext) -> None:
    await scene.clock.sleep(0.5)
    while not scene.abandoned_job:
        await scene.clock.sleep(POLL_MINUTES)
    await scene.clock.sleep(POLL_MINUTES)
    me = agent(scene, "ben", "ben-4")
    me.say("starts as a replacement for the killed agent")
    await _work_on_jobs(me, 0, {})


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
    for stage, feedback in STORY["runFeedback"].items():
        while True:
            awaiting = (await resolve_run(scene.call, scene.run_id)).awaiting
            if awaiting is not None and awaiting.slug == stage:
                break
            await scene.clock.sleep(POLL_MINUTES)
        await scene.clock.sleep(4)
        args = {"stageSlug": stage, "feedback": feedback}
        answer = await me.call("submit_stage_feedback", runId=scene.run_id, **args)
        me.say(f"feedback on {stage}: “{feedback}”", strong=True)
        for begun in answer["started"]:
            jobs = sum(step["jobs"] for step in begun["openSteps"])
            ready = "1 job is ready" if jobs == 1 else f"{jobs} jobs are ready"
            scene.say(_ENGINE, f"stage {begun['stageSlug']} starts: {ready}")
