"""Actors of the demo's plan: three agents, one of them killed during a step, and a person."""

import asyncio
from typing import Any

from waybook.app.queries.inbox import list_reviews
from waybook.app.request.short_ids import full_id_of
from waybook.cli.demo import script
from waybook.cli.demo.environment import ENGINE
from waybook.cli.demo.scene import Actor, DemoContext
from waybook.core.decision_context import Channel
from waybook.core.short_ids import IdKind

POLL_MINUTES = 3


def agent(scene: DemoContext, name: str, session: str | None = None) -> Actor:
    return Actor(name=name, scene=scene, session=session or name)


async def ada(scene: DemoContext) -> None:
    me = agent(scene, "ada")
    for _ in range(3):
        await complete_step(me)
    taken = await claim_step(me)
    await scene.clock.sleep(script.WORK[script.AGREE].minutes)
    await request_review(me, taken, script.REVIEW)
    taken = await reclaim_step(me)
    await scene.clock.sleep(script.WORK[script.AGREE].minutes)
    await request_review(me, taken, script.REVIEW_AGAIN)


async def ben(scene: DemoContext) -> None:
    """Act as ben, who loses a connection and takes over the abandoned step."""
    me = agent(scene, "ben")
    await scene.clock.sleep(1)
    await complete_step(me, connection_drops=True)
    await complete_step(me)
    await complete_step(me)
    await wait_for_approval(me)
    await complete_step(me)
    await me.call("get_next_step", planId=scene.plan_id)
    scene.feed.say(ENGINE, "the plan is complete", strong=True)


async def cleo(scene: DemoContext) -> None:
    """Act as cleo, who is killed during the second step."""
    me = agent(scene, "cleo")
    await scene.clock.sleep(2)
    await complete_step(me)
    taken = await claim_step(me)
    await scene.clock.sleep(4)
    await me.call("get_step_context", stepId=taken["stepId"])
    await scene.clock.sleep(2)
    me.say("is killed while working on it", strong=True)
    myself = asyncio.current_task()
    if myself is not None:
        myself.cancel()
    await scene.clock.sleep(1)


async def cleo_again(scene: DemoContext) -> None:
    """Continue in a new session: read the context, and claim the next step."""
    me = agent(scene, "cleo", "cleo-2")
    await scene.clock.sleep(66)
    open_plans = await me.call("list_active_plans")
    me.say(f"returns in a new conversation and finds {open_plans['total']} open plan")
    status = await me.call("get_plan_status", planId=scene.plan_id)
    stalled = status["stalledSteps"][0]
    message = f"step {stalled['stepOrder']} is stalled: no heartbeat for {stalled['minutes']} min"
    scene.feed.say(ENGINE, message, strong=True)
    context = await me.call("get_research_context", planId=scene.plan_id)
    done = sum(step["status"] == "completed" for step in context["steps"])
    me.say(f"reads the plan's context: question, {done} results, latest events")
    await complete_step(me)


async def mira(scene: DemoContext) -> None:
    """Act as the reviewer: send the first draft back, approve the second."""
    me = Actor(name="mira", scene=scene, channel=Channel.DASHBOARD)
    await _review_comes(scene)
    await scene.clock.sleep(5)
    args = {"decision": "modify", "feedback": script.PLAN_FEEDBACK}
    await me.call("submit_user_decision", planId=scene.plan_id, **args)
    scene.count(me.name)
    me.say(f"requests changes: “{script.PLAN_FEEDBACK}”", strong=True)
    await scene.clock.sleep(POLL_MINUTES)
    await _review_comes(scene)
    await scene.clock.sleep(4)
    await me.call("submit_user_decision", planId=scene.plan_id, decision="approve")
    scene.count(me.name)
    me.say("approves it", strong=True)


async def _review_comes(scene: DemoContext) -> None:
    while not await list_reviews(scene.call, scene.plan_id):
        await scene.clock.sleep(POLL_MINUTES)


async def create_plan(scene: DemoContext) -> None:
    me = agent(scene, "ada")
    steps: list[dict[str, object]] = [
        {"title": title, "stepType": kind, "instructions": instructions}
        for title, kind, instructions in script.PLAN_STEPS
    ]
    *parallel, agree, write = range(1, len(steps) + 1)
    steps[agree - 1]["dependsOn"] = parallel
    steps[write - 1]["dependsOn"] = [agree]
    made = await me.call(
        "create_research_plan",
        name=script.PLAN_NAME,
        researchQuestion=script.QUESTION,
        steps=steps,
        branchingConditions=list(script.CONDITIONS),
    )
    scene.plan_id = await full_id_of(scene.call, IdKind.PLAN, made["planId"], "planId")
    me.say(f"creates a plan: {len(steps)} steps, {len(script.CONDITIONS)} branching conditions")


async def complete_step(me: Actor, *, connection_drops: bool = False) -> None:
    taken = await claim_step(me)
    await work(me, taken)
    await submit_result(me, taken, twice=connection_drops)


async def claim_step(me: Actor) -> dict[str, Any]:
    taken = await me.call("get_next_step", planId=me.scene.plan_id)
    if earlier := taken.get("takenOver"):
        again = f"{taken['title']} (attempt {taken['attempt']})"
        me.say(f"takes over from {earlier['heldBy']}: {again}", strong=True)
    else:
        me.say(f"claims: {taken['title']}")
    return taken


async def reclaim_step(me: Actor) -> dict[str, Any]:
    """Wait for the reviewer's decision, and claim the step again if it was sent back."""
    while True:
        await me.scene.clock.sleep(POLL_MINUTES)
        taken = await me.call("get_next_step", planId=me.scene.plan_id)
        if taken["status"] == "step_ready":
            me.say(f"claims it again, with the feedback (attempt {taken['attempt']})")
            return taken


async def work(me: Actor, taken: dict[str, Any]) -> None:
    todo = script.WORK[taken["title"]]
    passed = 0.0
    for sign in (*todo.heartbeats, todo.minutes):
        await me.scene.clock.sleep(sign - passed)
        passed = sign
        if sign < todo.minutes:
            await me.call("get_step_context", stepId=taken["stepId"])


async def submit_result(me: Actor, taken: dict[str, Any], *, twice: bool = False) -> None:
    """Submit the result. With `twice`, repeat the call as after a lost connection."""
    todo = script.WORK[taken["title"]]
    args = {
        "stepId": taken["stepId"],
        "attempt": taken["attempt"],
        "resultSummary": dict(todo.result),
        "confidence": todo.confidence,
        "idempotencyKey": f"{me.session}-{taken['stepId']}-{taken['attempt']}",
    }
    answer = await me.call("submit_step_result", **args)
    me.scene.count(me.name)
    me.say(f"completes: {taken['title']} (confidence {todo.confidence * 100:.0f} %)")
    for branch in answer["branches"]:
        _tell_branch(me.scene, branch)
    if twice and (await me.call("submit_step_result", **args)).get("replayed"):
        me.say("submits it again after a network timeout: counted once", strong=True)


def _tell_branch(scene: DemoContext, branch: dict[str, Any]) -> None:
    added, skipped = (len(branch.get(name, ())) for name in ("addedStepIds", "skippedStepIds"))
    what = f"{added} steps added" if added else f"{skipped} step skipped"
    scene.feed.say(ENGINE, f"condition {branch['expression']} is true: {what}", strong=True)


async def request_review(me: Actor, taken: dict[str, Any], summary: str) -> None:
    result = dict(script.WORK[taken["title"]].result)
    args = {"summary": summary, "resultSummary": result}
    await me.call("request_user_review", stepId=taken["stepId"], **args)
    me.say("asks a person to review it; the plan waits")


async def wait_for_approval(me: Actor) -> None:
    while True:
        await me.scene.clock.sleep(POLL_MINUTES)
        status = await me.call("get_plan_status", planId=me.scene.plan_id)
        done = {step["title"] for step in status["completedSteps"]}
        if script.AGREE in done:
            return
