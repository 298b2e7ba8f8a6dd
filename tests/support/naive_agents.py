"""Naive agents: programs that make only the calls that replies suggest, and stop at random.

Eight agents share a plan or a run. Each agent makes one call at a time, and fills in only the
arguments that the suggested call lacks: a result, or a summary for a review. An agent may fail a
job instead of submitting it, and may stop between any two calls; a new agent with a new session
then replaces it. A scripted person decides the reviews, gives feedback, and retries failed jobs.
Time is simulated: a call that would wait is answered at once, and the clock advances.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from org_env import AgentClient, Body, OrgEnv
from waybook.core.decision_context import Channel
from waybook.dag.definitions.definition import write_definition
from waybook.dag.model import Dag
from waybook.store import audit

AGENTS = 8
#: Maximum number of calls per plan or run. If the plan or run is still open after them, the test
#: fails.
MAX_CALLS = 3_000
STALL_MINUTES = 5
DEATH_RATE = 0.12
FAILURE_RATE = 0.15
CLOSED = ("plan_complete", "plan_failed")
READY = ("step_ready", "job_ready")
RESULTS = ("plain", "again", "more", "skip", "stop")


def random_plan(random: Random) -> Body:
    """Return the arguments of a plan with branches, dependencies, checkpoints and repetitions."""
    count = random.randint(1, 7)
    has_dependencies = random.random() < 0.5
    steps = [
        {
            "stepType": "checkpoint" if random.random() < 0.2 else "search",
            "instructions": f"Do part {number}.",
            **({"maxAttempts": random.randint(1, 4)} if random.random() < 0.3 else {}),
            **(
                {
                    "dependsOn": random.sample(
                        range(1, number), min(number - 1, random.randint(0, 2))
                    )
                }
                if has_dependencies
                else {}
            ),
        }
        for number in range(1, count + 1)
    ]
    conditions = [random_condition(random, count) for _ in range(random.randint(0, 4))]
    return {
        "name": "Random plan",
        "researchQuestion": "Does it end?",
        "steps": steps,
        "sequential": random.random() < 0.3,
        "branchingConditions": conditions,
        "stallMinutes": STALL_MINUTES,
    }


def random_condition(random: Random, count: int) -> Body:
    after = random.randint(1, count)
    kinds = ("continue", "add_steps", "repeat", "fail")
    kind = random.choice((*kinds, "skip_to") if after < count else kinds)
    inner = {
        "conditionExpression": "result == 'again'",
        "ifTrueAction": "repeat",
        "actionParams": {"max": 2, "reason": "not yet"},
    }
    added = {
        "stepType": "analyze",
        "instructions": "More.",
        "dependsOn": random.sample(range(1, after + 1), random.randint(0, 1)),
        "branchingConditions": [inner],
    }
    check = {"stepType": "critique", "instructions": "Check it.", "dependsOn": [after + 1]}
    end = random.choice(("continue", "review", "fail"))
    expression, params = {
        "continue": ("true", {}),
        "skip_to": (
            "result == 'skip'",
            {"targetStepOrder": random.randint(min(after + 1, count), count)},
        ),
        "add_steps": ("result == 'more'", {"steps": [added, check]}),
        "repeat": (
            "result == 'again'",
            {"fromStepOrder": random.randint(1, after), "max": 3, "onExhausted": end},
        ),
        "fail": ("result == 'stop' && step.attempt > 1", {"reason": "enough"}),
    }[kind]
    return {
        "afterStepOrder": after,
        "conditionExpression": expression,
        "ifTrueAction": kind,
        "actionParams": params,
    }


@dataclass
class NaiveAgent:
    """Agent that makes one given call first, and then only the call in `next` of the last reply."""

    client: AgentClient
    next_call: Body
    session: str
    random: Random
    has_ended: bool = False
    #: Number of calls of this agent since the plan or run last changed or the agent last waited.
    idle_calls: int = 0
    seen_changes: int = 0

    async def act(self, seen: Counter[str]) -> bool:
        """Make the next call without waiting; return whether a real agent would wait now."""
        tool, args = str(self.next_call["tool"]), dict(self.next_call["args"])
        would_wait = args.pop("waitSeconds", 0) > 0
        if tool == "submit_job_result" and self.random.random() < FAILURE_RATE:
            tool = "fail_job"
            args.pop("takeNext", None)
        answer = await self.client.ask(tool, {**args, **self._own_words(tool)})
        seen[tool] += 1
        body: Body = answer.body
        if answer.is_error:
            body = dict(answer.body["error"])  # type: ignore[call-overload]  # an object
            seen[str(body["code"])] += 1
            assert body.get("next"), body
        if body.get("status") in CLOSED or body["next"] is None:
            self.has_ended = True
        self.next_call = body["next"]
        return would_wait and body.get("status") not in READY

    def _own_words(self, tool: str) -> Body:
        words: Body = {"sessionId": self.session}
        if tool == "submit_step_result":
            words["resultSummary"] = self.random.choice(RESULTS)
        if tool == "submit_job_result":
            # Every job submits a JSON list, because some documents must be a list of items.
            words["documents"] = [{"content": '["one", "two"]'}]
        if tool == "fail_job":
            words |= {"error": "No luck.", "retryable": self.random.random() < 0.7}
        if tool == "request_user_review":
            words["summary"] = "Is this right?"
        if tool == "submit_user_decision":
            words["decision"] = "approve"
        return words


@dataclass
class Outcome:
    subjects: int = 0
    calls: int = 0
    #: Largest number of calls that an agent made in sequence, with no wait and no change of the
    #: plan or run.
    longest_loop: int = 0
    deaths: int = 0
    decisions: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    endless: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.subjects} ended, {self.calls} calls, {self.deaths} deaths, "
            f"{self.decisions} decisions by a person, {len(self.endless)} endless, "
            f"longest loop {self.longest_loop}; {dict(self.statuses)}"
        )


async def decide_review(person: AgentClient, plan_id: object, random: Random) -> bool:
    status = await person.call("get_plan_status", planId=plan_id)
    review: Body | None = status["openReview"]
    if review is None:
        return False
    decision = random.choices(("approve", "modify", "skip", "reject"), (6, 3, 2, 1))[0]
    words = {"feedback": "Again, please."} if decision == "modify" else {}
    await person.call("submit_user_decision", planId=plan_id, decision=decision, **words)
    return True


async def help_run(person: AgentClient, run_id: object, random: Random) -> bool:
    """If the run waits for a person, act as that person and return True; otherwise return False."""
    progress = await person.call("get_run_progress", runId=run_id)
    if stage := progress.get("awaitingFeedback"):
        named = {"runId": run_id, "stageSlug": stage}
        await person.call("submit_stage_feedback", **named, feedback="Go on.")
        return True
    if progress["status"] != "failed":
        return False
    if random.random() < 0.1:
        await person.call("cancel_run", runId=run_id, reason="No use.")
    else:
        failed = [s["stageSlug"] for s in progress["stages"] if s["status"] == "failed"]
        await person.call("retry_failed", runId=run_id, stageSlug=failed[0])
    return True


Help = Callable[[AgentClient, object, Random], Awaitable[bool]]


@dataclass
class Crew:
    """Eight naive agents on one plan or run, and the person who helps them."""

    world: OrgEnv
    first_call: Body
    help_out: Help
    seed: int
    outcome: Outcome

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - a reproducible simulation
        self.person = self.world.agent.acting_as("pat", Channel.DASHBOARD)
        (self.subject_id,) = self.first_call["args"].values()
        self.born = 0
        self.agents = [self.newcomer() for _ in range(AGENTS)]

    def newcomer(self) -> NaiveAgent:
        self.born += 1
        session = f"{self.seed}-{self.born}"
        return NaiveAgent(self.world.agent, self.first_call, session, self.random)

    async def work_until_end(self) -> None:
        """Choose an agent at random for each next call, until one finds that the work has ended."""
        self.outcome.subjects += 1
        for _ in range(MAX_CALLS):
            if await self.make_call():
                return
        self.outcome.endless.append(self.seed)

    async def make_call(self) -> bool:
        """Let one agent make a call; return whether it found that the work has ended."""
        self.world.clock.advance(seconds=5)
        place = self.random.randrange(AGENTS)
        if self.agents[place].has_ended:
            return True
        await self._act(self.agents[place])
        if self.agents[place].has_ended:
            return True
        if self.random.random() < DEATH_RATE:
            self.agents[place] = self.newcomer()
            self.outcome.deaths += 1
        if self.random.random() < 0.1:
            helped = await self.help_out(self.person, self.subject_id, self.random)
            self.outcome.decisions += helped
        return False

    async def _act(self, agent: NaiveAgent) -> None:
        outcome, before = self.outcome, await self._changes()
        waited = await agent.act(outcome.seen)
        outcome.calls += 1
        if waited:
            self.world.clock.advance(seconds=55 / AGENTS)
        after = await self._changes()
        if after != before:
            agent.idle_calls = 0
        elif waited or before != agent.seen_changes:
            agent.idle_calls = 1
        else:
            agent.idle_calls += 1
        agent.seen_changes = after
        outcome.longest_loop = max(outcome.longest_loop, agent.idle_calls)

    async def _changes(self) -> int:
        statement = audit.SQL["head"](subject_id=self.subject_id)
        ((head,),) = await self.world.database.read_org(self.world.agent.org_id, statement)
        return int(head.seq)


async def run_plan(world: OrgEnv, seed: int, outcome: Outcome) -> None:
    """Let naive agents work on one random plan until it ends."""
    arguments = random_plan(Random(seed))  # noqa: S311 - a reproducible simulation
    plan = await world.agent.call("create_research_plan", **arguments)
    first_call = {"tool": "get_next_step", "args": {"planId": plan["planId"]}}
    await Crew(world, first_call, decide_review, seed, outcome).work_until_end()
    status = await world.agent.call("get_plan_status", planId=plan["planId"])
    outcome.statuses[str(status["status"])] += 1


async def run_workflow(
    world: OrgEnv, dag: Dag, models: list[str], seed: int, outcome: Outcome
) -> None:
    """Let naive agents work on one run of a workflow until it ends."""
    await world.agent.call("add_dag", definition=write_definition(dag))
    run = await world.agent.run(dag.slug, models, input={"brief": "Go.", "items": ["x", "y"]})
    first_call = {"tool": "get_next_job", "args": {"runId": run["runId"]}}
    await Crew(world, first_call, help_run, seed, outcome).work_until_end()
    status = (await world.agent.progress(run))["status"]
    outcome.statuses[str(status)] += 1
