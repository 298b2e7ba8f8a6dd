"""Two concurrent calls on one plan: both get a valid answer, and the plan can still end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from org_env import AgentClient, Body, OrgEnv, branch_condition, make_step
from patience import PATIENCE_SECONDS
from plan_invariants import is_derivable
from waybook.app.request.caller import Answer
from waybook.plan.model import PlanStatus, StepStatus

#: Number of repetitions of each pair of calls. Every second repetition makes the calls in reverse
#: order.
ROUNDS = 2
ENDED = {"plan_complete", "plan_failed"}


@dataclass
class Scene:
    """Plan of four steps: the first is completed, the next two are claimed, the last is pending."""

    agent: AgentClient
    plan: Body
    held: list[Body] = field(default_factory=list)

    @property
    def plan_id(self) -> str:
        return str(self.plan["planId"])

    @property
    def steps(self) -> list[str]:
        return list(self.plan["stepIds"])

    async def ask(self, tool: str, **arguments: object) -> Answer:
        return await self.agent.ask(tool, arguments)

    async def modify(self, **modification: object) -> Answer:
        return await self.ask("modify_plan", planId=self.plan_id, modifications=[modification])


async def make_scene(agent: AgentClient, *, review: bool = False, last_two: bool = False) -> Scene:
    condition = branch_condition(2, "result == 'skip'", "skip_to", targetStepOrder=4)
    plan = await agent.plan(4, branchingConditions=[condition])
    scene = Scene(agent, plan)
    await agent.submit(await agent.take(plan))
    scene.held = [await agent.take(plan, another=True) for _ in range(2)]
    if last_two:
        failing = {"action": "fail_step", "stepId": scene.steps[3], "reason": "not needed"}
        await agent.call("modify_plan", planId=scene.plan_id, modifications=[failing])
    if review:
        await agent.call("request_user_review", stepId=scene.held[0]["stepId"], summary="Look.")
    return scene


Party = Callable[[Scene], Awaitable[Answer]]


def take(scene: Scene) -> Awaitable[Answer]:
    return scene.ask("get_next_step", planId=scene.plan_id)


def submit(number: int, result: str = "found") -> Party:
    def party(scene: Scene) -> Awaitable[Answer]:
        held = scene.held[number]
        return scene.ask(
            "submit_step_result",
            stepId=held["stepId"],
            attempt=held["attempt"],
            resultSummary=result,
        )

    return party


def ask_review(number: int) -> Party:
    def party(scene: Scene) -> Awaitable[Answer]:
        return scene.ask(
            "request_user_review", stepId=scene.held[number]["stepId"], summary="Look."
        )

    return party


def decide(decision: str) -> Party:
    def party(scene: Scene) -> Awaitable[Answer]:
        args = {"planId": scene.plan_id, "decision": decision, "feedback": "So."}
        return scene.ask("submit_user_decision", **args)

    return party


def fail(number: int) -> Party:
    def party(scene: Scene) -> Awaitable[Answer]:
        return scene.modify(
            action="fail_step", stepId=scene.held[number]["stepId"], reason="broken"
        )

    return party


def reclaim(number: int) -> Party:
    def party(scene: Scene) -> Awaitable[Answer]:
        return scene.modify(action="retry_step", stepId=scene.held[number]["stepId"])

    return party


def add(scene: Scene) -> Awaitable[Answer]:
    return scene.modify(action="add_steps", steps=[make_step()], insertAfterOrder=3)


def remove(scene: Scene) -> Awaitable[Answer]:
    return scene.modify(action="remove_step", stepId=scene.steps[3])


def reorder(scene: Scene) -> Awaitable[Answer]:
    return scene.modify(action="reorder_steps", stepIds=list(reversed(scene.steps)))


def rewrite(scene: Scene) -> Awaitable[Answer]:
    return scene.modify(
        action="update_step_instructions", stepId=scene.held[0]["stepId"], instructions="Better."
    )


def look(scene: Scene) -> Awaitable[Answer]:
    return scene.ask("get_research_context", planId=scene.plan_id, sessionId="a newcomer")


#: Pairs of concurrent calls. Each entry has two calls, the error codes with which one of them may
#: be refused, and options of the plan.
PAIRS: dict[str, tuple[Party, Party, set[str], dict[str, bool]]] = {
    "take and take": (take, take, set(), {}),
    "submit both of the last two": (submit(0), submit(1), set(), {"last_two": True}),
    "submit twice": (submit(0), submit(0), {"INVALID_TRANSITION"}, {}),
    "submit twice the last": (submit(0), submit(0), {"INVALID_TRANSITION"}, {"last_two": True}),
    "submit and take": (submit(0), take, set(), {}),
    "submit that skips, and take": (submit(0, "skip"), take, set(), {}),
    "submit and fail": (submit(0), fail(0), {"INVALID_TRANSITION"}, {}),
    "submit and fail the last two": (submit(0), fail(1), set(), {"last_two": True}),
    "submit and reclaim": (submit(0), reclaim(0), {"INVALID_TRANSITION", "STALE_ATTEMPT"}, {}),
    "submit and ask for review": (submit(0), ask_review(0), {"INVALID_TRANSITION"}, {}),
    "ask for two reviews": (ask_review(0), ask_review(1), {"INVALID_TRANSITION"}, {}),
    "approve and approve": (
        decide("approve"),
        decide("approve"),
        {"NOT_AWAITING_REVIEW"},
        {"review": True},
    ),
    "approve and reject": (
        decide("approve"),
        decide("reject"),
        {"NOT_AWAITING_REVIEW"},
        {"review": True},
    ),
    "modify and skip": (
        decide("modify"),
        decide("skip"),
        {"NOT_AWAITING_REVIEW"},
        {"review": True},
    ),
    "reject and submit": (decide("reject"), submit(1), {"PLAN_TERMINAL"}, {"review": True}),
    "approve and submit the last two": (
        decide("approve"),
        submit(1),
        set(),
        {"review": True, "last_two": True},
    ),
    "approve and take": (decide("approve"), take, set(), {"review": True}),
    "approve and add": (decide("approve"), add, {"NOT_MODIFIABLE"}, {"review": True}),
    "add and take": (add, take, set(), {}),
    "add and submit the last two": (add, submit(0), set(), {"last_two": True}),
    "add and add": (add, add, set(), {}),
    "reorder and add": (reorder, add, {"STALE_PLAN"}, {}),
    "reorder and take": (reorder, take, set(), {}),
    "remove and take": (remove, take, {"INVALID_TRANSITION", "NOT_MODIFIABLE"}, {}),
    "reclaim and take": (reclaim(0), take, set(), {}),
    "reclaim twice": (reclaim(0), reclaim(0), {"INVALID_TRANSITION"}, {}),
    "fail and fail": (fail(0), fail(0), {"INVALID_TRANSITION"}, {}),
    "rewrite and submit": (rewrite, submit(0), set(), {}),
    "a newcomer and a newcomer": (look, look, set(), {}),
    "a newcomer and submit": (look, submit(0), set(), {}),
}


@pytest.mark.parametrize("name", PAIRS)
async def test_two_concurrent_calls_leave_the_plan_consistent(world: OrgEnv, name: str) -> None:
    left, right, refusals, set_ = PAIRS[name]
    for round_ in range(ROUNDS):
        scene = await make_scene(world.agent, **set_)
        parties = (left, right) if round_ % 2 else (right, left)
        answers = await both(world, scene, *parties)
        codes = [_code(answer) for answer in answers if answer.is_error]
        assert set(codes) <= refusals, (codes, answers)
        assert len(codes) <= 1, answers
        await check_steps(world.agent, scene.plan)
        if name == "take and take":
            first, second = (answer.body.get("stepId") for answer in answers)
            assert first != second
        await close_plan(world.agent, scene.plan)


async def both(world: OrgEnv, scene: Scene, left: Party, right: Party) -> list[Answer]:
    """Make both calls while the plan is locked, then release the lock; return the two answers."""
    async with world.database.org_transaction(world.agent.org_id) as tx:
        results = await tx.send(
            f"select pg_backend_pid() from plan where id = '{scene.plan_id}' for update"  # noqa: S608 - id from a row
        )
        tasks = [asyncio.ensure_future(party(scene)) for party in (left, right)]
        await until_blocked(world, results[0][0][0], tasks)
        await tx.commit()
    async with asyncio.timeout(PATIENCE_SECONDS):
        return list(await asyncio.gather(*tasks))


async def until_blocked(world: OrgEnv, holder: int, tasks: list[Any]) -> None:
    """Wait until each call has ended or waits for a lock."""
    counting = (
        f"select count(*) from pg_stat_activity where {holder} = any (pg_blocking_pids(pid))"  # noqa: S608 - a number
        f" or cardinality(pg_blocking_pids(pid)) > 0 and datname = current_database()"
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            results = await world.database.read_org(world.agent.org_id, counting)
            if results[0][0][0] + sum(task.done() for task in tasks) >= len(tasks):
                return
            await asyncio.sleep(0.001)


def _code(answer: Answer) -> str:
    error: Any = answer.body["error"]
    return str(error["code"])


async def check_steps(agent: AgentClient, plan: Body) -> None:
    """Check that steps are numbered from 1, and that the plan's status agrees with theirs."""
    context = await agent.call("get_research_context", planId=plan["planId"])
    steps = context["steps"]
    assert [step["stepOrder"] for step in steps] == list(range(1, len(steps) + 1))
    statuses = [StepStatus(step["status"]) for step in steps]
    assert is_derivable(PlanStatus(context["status"]), statuses)


async def close_plan(agent: AgentClient, plan: Body) -> None:
    """Work on the plan until it is closed; claimed steps are completed too."""
    for _ in range(30):
        reply = await agent.call("get_next_step", planId=plan["planId"])
        if reply["status"] in ENDED:
            return
        if reply["status"] == "step_ready":
            await agent.submit(reply)
        elif reply["status"] == "awaiting_review":
            await agent.call("submit_user_decision", planId=plan["planId"], decision="approve")
        else:
            for step in (await agent.status(plan))["activeSteps"]:
                await agent.submit(step)
    pytest.fail("the plan did not end after 30 calls of get_next_step")


async def test_concurrent_get_next_step_calls_hand_out_each_step_once(world: OrgEnv) -> None:
    plan = await world.agent.plan(20)
    calls = [world.agent.call("get_next_step", planId=plan["planId"]) for _ in range(25)]
    async with asyncio.timeout(PATIENCE_SECONDS):
        replies = await asyncio.gather(*calls)
    ready = [reply["stepId"] for reply in replies if reply["status"] == "step_ready"]
    assert sorted(ready) == sorted(plan["stepIds"])
    assert [r["status"] for r in replies].count("no_pending_steps") == 5
