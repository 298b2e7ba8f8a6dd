"""Naive agents: programs that make only the calls that replies suggest, and that end at random.

Eight agents share a plan. Each agent makes one call at a time, and fills in only the arguments that
the suggested call lacks: a result, or a summary for a review. An agent may end between any two
calls; a new agent with a new session then replaces it. A scripted person decides the reviews. Time
is simulated: a call that would wait is answered at once, and the clock advances.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from org_env import AgentClient, Body, OrgEnv
from waybook.core.decision_context import Channel

AGENTS = 8
#: Maximum number of calls per plan. The test fails if the plan is still open after that many calls.
MAX_CALLS = 3_000
STALL_MINUTES = 5
DEATH_RATE = 0.12
CLOSED = ("plan_complete", "plan_failed")
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


def earlier_orders(random: Random, number: int) -> list[int]:
    """Return up to two random step positions before this position."""
    return random.sample(range(1, number), min(number - 1, random.randint(0, 2)))


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
    """Agent that knows only the id of its plan and the calls that replies suggest in `next`."""

    client: AgentClient
    plan_id: object
    session: str
    random: Random
    next_call: Body = field(default_factory=dict)
    has_ended: bool = False

    async def act(self, seen: Counter[str]) -> bool:
        """Make the suggested call without its waiting time; return whether the call would wait."""
        suggested = self.next_call or {"tool": "get_next_step", "args": {"planId": self.plan_id}}
        tool, args = str(suggested["tool"]), dict(suggested["args"])
        would_wait = args.pop("waitSeconds", 0) > 0
        answer = await self.client.ask(tool, {**args, **self._own_words(tool)})
        seen[tool] += 1
        body: Body = answer.body
        if answer.is_error:
            body = dict(answer.body["error"])  # type: ignore[call-overload]  # an object
            seen[str(body["code"])] += 1
            assert body.get("next"), body
        if body.get("status") in CLOSED:
            self.has_ended = True
        self.next_call = body["next"]
        return would_wait and body.get("status") != "step_ready"

    def _own_words(self, tool: str) -> Body:
        words: Body = {"sessionId": self.session}
        if tool == "submit_step_result":
            words["resultSummary"] = self.random.choice(RESULTS)
        if tool == "request_user_review":
            words["summary"] = "Is this right?"
        if tool == "submit_user_decision":
            words["decision"] = "approve"
        return words


@dataclass
class Outcome:
    """Results of one simulation with naive agents, as numbers."""

    plans: int = 0
    calls: int = 0
    deaths: int = 0
    self_approvals: int = 0
    decisions: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    endless: list[int] = field(default_factory=list)


async def decide_review(person: AgentClient, plan_id: object, random: Random) -> bool:
    """Decide the open review of the plan, if it has one; return whether a review was decided."""
    status = await person.call("get_plan_status", planId=plan_id)
    review: Body | None = status["openReview"]
    if review is None:
        return False
    decision = random.choices(("approve", "modify", "skip", "reject"), (6, 3, 2, 1))[0]
    words = {"feedback": "Again, please."} if decision == "modify" else {}
    await person.call("submit_user_decision", planId=plan_id, decision=decision, **words)
    return True


async def run_plan(world: OrgEnv, seed: int, outcome: Outcome) -> None:
    """Let eight naive agents work on one random plan until it ends."""
    random = Random(seed)  # noqa: S311 - a reproducible simulation
    person = world.agent.acting_as("pat", Channel.DASHBOARD)
    plan = await world.agent.call("create_research_plan", **random_plan(random))
    plan_id = plan["planId"]

    def newcomer(number: int) -> NaiveAgent:
        session = f"{seed}-{number}"
        return NaiveAgent(world.agent, plan_id, session, random)

    agents, born = [newcomer(number) for number in range(AGENTS)], AGENTS
    outcome.plans += 1
    for _ in range(MAX_CALLS):
        world.clock.advance(seconds=5)
        place = random.randrange(AGENTS)
        agent = agents[place]
        waited = await agent.act(outcome.seen)
        outcome.calls += 1
        if agent.has_ended:
            break
        if waited:
            world.clock.advance(seconds=55 / AGENTS)
        if random.random() < DEATH_RATE:
            agents[place], born = newcomer(born), born + 1
            outcome.deaths += 1
        if random.random() < 0.1:
            outcome.decisions += await decide_review(person, plan_id, random)
    else:
        outcome.endless.append(seed)
    outcome.self_approvals = outcome.seen["submit_user_decision"]
    status = await person.call("get_plan_status", planId=plan_id)
    outcome.statuses[str(status["status"])] += 1
