"""Actions of the scripted agents and of the person in the demo.

In the plan, three agents act at times that a script sets, and one of them is killed during a step.
In the run, each agent has three sessions. In every round, each session submits its job and claims
another. The person reviews the plan and gives feedback on the run.
"""

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import yaml
from rich.text import Text

from waybook.app.queries.work_list import resolve_run
from waybook.app.registry import TOOLS
from waybook.app.request.request_context import RequestContext
from waybook.application import BasicApplication
from waybook.background import render_orgs
from waybook.cli.demo.environment import Show, SimulatedClock
from waybook.cli.runtime import AppSession
from waybook.cli.terminal.errors import ToolError
from waybook.core.decision_context import Channel

STORY: Mapping[str, Any] = yaml.safe_load(
    (files("waybook.cli.demo") / "story.yaml").read_text("utf-8")
)
DOCUMENTS = {
    key: group["opening"] + text
    for group in STORY["documents"]
    for key, text in group["texts"].items()
}


def document_for(job: Mapping[str, Any]) -> str:
    """Return the document for a job of the run, with the opinion of the job's model."""
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
_ROUND_MINUTES = 5
_LATE_ROUNDS = 5

Reply = dict[str, Any]


@dataclass
class DemoContext:
    app: BasicApplication
    clock: SimulatedClock
    plan_id: str = ""
    run_id: str = ""
    #: The log of events.
    lines: list[Text] = field(default_factory=list)
    listener: Callable[[Text], None] | None = None

    @property
    def call(self) -> RequestContext:
        return AppSession(self.app).call

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
        return await AppSession(self.scene.app).result(tool, arguments, caller)

    def say(self, message: str, *, strong: bool = False) -> None:
        """Log a line with the name of the session, because an agent may have several sessions."""
        self.scene.say(self.session or self.name, message, strong=strong)


def agent(scene: DemoContext, name: str, session: str | None = None) -> Actor:
    return Actor(name=name, scene=scene, session=session or name)


async def play_plan(scene: DemoContext, show: Show) -> None:
    story = _PlanStory(scene)
    await story.create()
    passed = 0
    for minute, name, act in STORY["script"]:
        await scene.clock.pass_minutes(minute - passed, show)
        passed = minute
        await getattr(story, act)(name)
    scene.say(_ENGINE, "the plan is complete", strong=True)


class _PlanStory:
    """Actions of the agents and the person in the plan. The script contains the method names."""

    def __init__(self, scene: DemoContext) -> None:
        self.scene = scene
        self.agents = {name: agent(scene, name) for name in MODELS}
        self.mira = Actor(name="mira", scene=scene, channel=Channel.DASHBOARD)
        self.held: dict[str, Reply] = {}
        self.reviews = iter((STORY["review"], STORY["reviewAgain"]))

    async def create(self) -> None:
        made = await self.agents["ada"].call("create_research_plan", **STORY["plan"])
        self.scene.plan_id = made["planId"]
        steps, conditions = STORY["plan"]["steps"], STORY["plan"]["branchingConditions"]
        what = f"{len(steps)} steps, {len(conditions)} branching conditions"
        self.scene.say("ada", f"creates a plan: {what}")

    async def claim(self, name: str) -> None:
        taken = await self.agents[name].call("get_next_step", planId=self.scene.plan_id)
        self.held[name], attempt = taken, f"(attempt {taken['attempt']})"
        if earlier := taken.get("takenOver"):
            message = f"takes over from {earlier['heldBy']}: {taken['title']} {attempt}"
            self.scene.say(name, message, strong=True)
        elif taken["attempt"] > 1:
            self.scene.say(name, f"claims it again, with the feedback {attempt}")
        else:
            self.scene.say(name, f"claims: {taken['title']}")

    async def heartbeat(self, name: str) -> None:
        await self.agents[name].call("get_step_context", stepId=self.held[name]["stepId"])

    async def submit(self, name: str) -> Reply:
        scene, taken = self.scene, self.held[name]
        work = STORY["work"][taken["title"]]
        args = {
            "stepId": taken["stepId"],
            "attempt": taken["attempt"],
            "resultSummary": work["result"],
            "confidence": work["confidence"],
            "idempotencyKey": f"{name}-{taken['stepId']}-{taken['attempt']}",
        }
        answer = await self.agents[name].call("submit_step_result", **args)
        if answer.get("replayed"):
            return answer
        confidence = f"{work['confidence'] * 100:.0f} %"
        scene.say(name, f"completes: {taken['title']} (confidence {confidence})")
        for branch in answer["branches"]:
            added, skipped = (
                len(branch.get(f"{kind}StepIds", ())) for kind in ("added", "skipped")
            )
            what = f"{added} steps added" if added else f"{skipped} step skipped"
            scene.say(_ENGINE, f"condition {branch['expression']} is true: {what}", strong=True)
        return answer

    async def submit_twice(self, name: str) -> None:
        await self.submit(name)
        if (await self.submit(name)).get("replayed"):
            message = "submits it again after a network timeout: counted once"
            self.scene.say(name, message, strong=True)

    async def die(self, name: str) -> None:
        self.scene.say(name, "is killed while working on it", strong=True)

    async def come_back(self, name: str) -> None:
        """Continue in a new session, which has only what is stored in the plan."""
        me = self.agents[name] = agent(self.scene, name, f"{name}-2")
        plan_id, say = self.scene.plan_id, self.scene.say
        open_plans = await me.call("list_active_plans")
        say(name, f"returns in a new conversation and finds {open_plans['total']} open plan")
        stalled = (await me.call("get_plan_status", planId=plan_id))["stalledSteps"][0]
        silence = f"no heartbeat for {stalled['minutes']} min"
        say(_ENGINE, f"step {stalled['stepOrder']} is stalled: {silence}", strong=True)
        context = await me.call("get_research_context", planId=plan_id)
        done = sum(step["status"] == "completed" for step in context["steps"])
        say(name, f"reads the plan's context: question, {done} results, latest events")

    async def request_review(self, name: str) -> None:
        taken = self.held[name]
        result = STORY["work"][taken["title"]]["result"]
        args = {"summary": next(self.reviews), "resultSummary": result}
        await self.agents[name].call("request_user_review", stepId=taken["stepId"], **args)
        self.scene.say(name, "asks a person to review it; the plan waits")

    async def request_changes(self, _: str) -> None:
        feedback = STORY["planFeedback"]
        args = {"decision": "modify", "feedback": feedback}
        await self.mira.call("submit_user_decision", planId=self.scene.plan_id, **args)
        self.mira.say(f"requests changes: “{feedback}”", strong=True)

    async def approve(self, _: str) -> None:
        args = {"planId": self.scene.plan_id, "decision": "approve"}
        await self.mira.call("submit_user_decision", **args)
        self.mira.say("approves it", strong=True)


async def play_run(scene: DemoContext, show: Show) -> None:
    await start_run(scene)
    sessions = [
        agent(scene, name, name if n == 1 else f"{name}-{n}") for n in (1, 2, 3) for name in MODELS
    ]
    #: For some jobs, by model and document: the function that handles the first attempt. Later
    #: attempts are submitted normally.
    once: dict[tuple[str, str], _Handling] = {
        ("beta", "business_case"): _fail_job,
        ("gamma", "technical_feasibility_assessment"): _submit_half,
        ("beta", "synthesis_pairwise_feature_spec"): _crash,
    }
    work = RunWork(scene, sessions, once)
    while await work.round():
        await scene.clock.pass_minutes(_ROUND_MINUTES, show)


async def start_run(scene: DemoContext) -> None:
    me, models = agent(scene, "ada"), list(MODELS.values())
    stages = (await me.call("get_dag_map", dagSlug="dialectic", models=models))["stages"]
    jobs = sum(stage["expected"]["total"] for stage in stages)
    steps = sum(len(stage["order"]) for stage in stages)
    started = await me.call("start_run", dagSlug="dialectic", models=models, **STORY["run"])
    scene.run_id = started["runId"]
    me.say(f"starts a run with three models: {len(stages)} stages, {steps} steps, {jobs} jobs")


@dataclass
class RunWork:
    """The sessions that work on a run, and the job that each session holds."""

    scene: DemoContext
    sessions: list[Actor]
    once: dict[tuple[str, str], "_Handling"]
    #: Additional arguments for each call of `submit_job_result`.
    more: Mapping[str, object] = field(default_factory=dict)
    held: dict[str, Reply] = field(default_factory=dict)
    #: The killed session and its job. The result of the job is submitted when `rounds_left` reaches
    #: zero.
    late: tuple[Actor, Reply] | None = None
    rounds_left: int = 0

    async def round(self) -> bool:
        """Let each session submit its job and claim another. Return False if the run has ended."""
        await self._give_feedback()
        has_ended = False
        for me in [*self.sessions]:
            if job := self.held.pop(str(me.session), None):
                key = job["modelId"], job["documents"][0]["documentKey"]
                await self.once.pop(key, RunWork.submit)(self, me, job)
            if me not in self.sessions:
                continue
            job = await me.call("get_next_job", runId=self.scene.run_id, modelId=MODELS[me.name])
            has_ended = job["status"] == "run_complete"
            if job["status"] == "job_ready":
                self.held[str(me.session)] = job
                self._tell_claim(me, job)
        self.rounds_left -= 1
        if self.late and not self.rounds_left:
            (me, job), self.late = self.late, None
            with contextlib.suppress(ToolError):
                await self.submit(me, job)
                raise RuntimeError("a late result was accepted")
            me.say("submits late: refused, another agent has the job now", strong=True)
        services = self.scene.app.services
        while services.render_requested.is_set():
            await render_orgs(services, services.render_requested.take())
        return not has_ended

    def _tell_claim(self, me: Actor, job: Reply) -> None:
        if self.late and job["jobId"] == self.late[1]["jobId"]:
            me.say(f"takes over the abandoned job: {job['stepName']}")
        elif job["attempt"] > 1:
            me.say(f"retries: {job['stepName']} (attempt {job['attempt']})")
        elif "soFar" in job:
            me.say(f"writes the rest of: {job['stepName']}")

    async def submit(self, me: Actor, job: Reply, text: str = "", **more: object) -> None:
        text = text or document_for(job).removeprefix(job.get("soFar", ""))
        args = {"jobId": job["jobId"], "attempt": job["attempt"], **self.more, **more}
        answer = await me.call("submit_job_result", documents=[{"content": text}], **args)
        if (stage := answer["stage"])["status"] == "completed":
            steps = f"{stage['progress']['totalSteps']} steps"
            message = f"stage {stage['stageSlug']} is complete: {steps}"
            self.scene.say(_ENGINE, message, strong=True)

    async def _give_feedback(self) -> None:
        awaiting = (await resolve_run(self.scene.call, self.scene.run_id)).awaiting
        if awaiting is None:
            return
        me = Actor(name="mira", scene=self.scene, channel=Channel.DASHBOARD)
        feedback = STORY["runFeedback"][awaiting.slug]
        args = {"stageSlug": awaiting.slug, "feedback": feedback}
        answer = await me.call("submit_stage_feedback", runId=self.scene.run_id, **args)
        me.say(f"feedback on {awaiting.slug}: “{feedback}”", strong=True)
        for begun in answer["started"]:
            jobs = sum(step["jobs"] for step in begun["openSteps"])
            ready = "1 job is ready" if jobs == 1 else f"{jobs} jobs are ready"
            self.scene.say(_ENGINE, f"stage {begun['stageSlug']} starts: {ready}")


_Handling = Callable[[RunWork, Actor, Reply], Awaitable[None]]


async def _fail_job(_: RunWork, me: Actor, job: Reply) -> None:
    failed = {"error": "the model timed out", "retryable": True}
    await me.call("fail_job", jobId=job["jobId"], attempt=job["attempt"], **failed)
    me.say(f"reports a failure: {job['stepName']} ({failed['error']})", strong=True)


async def _submit_half(work: RunWork, me: Actor, job: Reply) -> None:
    text = document_for(job)
    await work.submit(me, job, text[: len(text) // 2], continues=True)
    me.say(f"submits half of: {job['stepName']}", strong=True)


async def _crash(work: RunWork, me: Actor, job: Reply) -> None:
    """Kill the session during a job, and start a session that replaces it.

    The killed session submits its result later, when another session has claimed the job.
    """
    me.say(f"is killed while working on: {job['stepName']}", strong=True)
    work.late, work.rounds_left = (me, job), _LATE_ROUNDS
    work.sessions.remove(me)
    other = agent(work.scene, me.name, f"{me.name}-4")
    work.sessions.append(other)
    other.say("starts as a replacement for the killed agent")
