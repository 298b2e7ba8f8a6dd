"""Every interface must show the same state of random plans and runs, at any time."""

import asyncio
import io
import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from dag_builders import dags, models
from naive_agents import Crew, Outcome, decide_review, help_run, random_plan
from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import ServerDatabase
from transport.page_client import make_browser
from waybook.app.queries.overview import LastLook, read_overview
from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.work_list import (
    ListOrder,
    PlanFilter,
    RunFilter,
    list_runs,
    plan_summaries,
)
from waybook.app.queries.work_views import ViewQuery, plan_view, read_view, run_view
from waybook.app.request.request_context import RequestContext
from waybook.cli.terminal.console import Viewport
from waybook.cli.terminal.plan_board import plan_display
from waybook.cli.terminal.run_board import run_display
from waybook.core.decision_context import Channel, ReviewPolicy
from waybook.core.shown import ENDED, TO_DO, Shown, word_of
from waybook.dag.definitions.definition import write_definition
from waybook.dag.model import Dag

EXAMPLES, PLANS_EACH = 8, 3
#: Numbers of calls after which the interfaces are compared.
CALLS = st.lists(st.integers(1, 25), min_size=1, max_size=3)
SEEDS = st.integers(0, 2**32)


def context(agent: AgentClient) -> RequestContext:
    caller = replace(agent.caller, channel=Channel.CLI)
    return RequestContext(services=agent.dispatcher.services, caller=caller)


def printed(content: RenderableType) -> str:
    console = Console(width=140, file=io.StringIO())
    console.print(content)
    return str(console.file.getvalue())  # type: ignore[attr-defined]  # a StringIO


def expected_state(status: Body) -> Shown:
    """Return the state of a plan, from what the tools say about it."""
    ended = {"completed": Shown.DONE, "failed": Shown.FAILED, "awaiting_review": Shown.NEEDS_YOU}
    if status["outcome"] == "canceled":
        return Shown.CANCELED
    if status["status"] in ended:
        return ended[status["status"]]
    active = (step for step in status["activeSteps"] if step["status"] == "in_progress")
    if any(step["heldBy"] for step in active):
        return Shown.STALLED if status["status"] == "stalled" else Shown.RUNNING
    return Shown.READY if status["totalSteps"] else Shown.TODO


async def page(browser: httpx2.AsyncClient, address: str) -> str:
    reply = await browser.get(address)
    assert reply.status_code == 200, (address, reply.text)
    return reply.text


def badge_after(pattern: str, text: str) -> str:
    match = re.search(pattern + r'.*?data-status="(\w+)"', text, re.DOTALL)
    assert match, (pattern, text)
    return match[1]


def listed_state(item: str, text: str) -> str:
    """Return the state in the row of a list."""
    row = next(row for row in re.split(r"<tr\b|<li\b", text) if f'id="{item}"' in row)
    return badge_after("", row)


async def check_plan(world: OrgEnv, browser: httpx2.AsyncClient, plan_id: str) -> PlanDetail:
    status = await world.agent.call("get_plan_status", planId=plan_id)
    detail = await read_plan_detail(context(world.agent), plan_id, PlanInclude.BOARD)
    state, word = expected_state(status), word_of(detail.shown)
    assert detail.shown is state
    text = await page(browser, f"/plans/{plan_id}")
    assert badge_after("<h1", text) == state
    for step in detail.plan.steps:
        assert badge_after(f'id="s{step.order}"', text) == detail.states[step.id]
    terminal = printed(plan_display(plan_view(detail), Viewport(width=140)))
    assert f" {word}" in terminal.splitlines()[1]
    for step in detail.plan.steps:
        row = next(
            line for line in terminal.splitlines() if re.match(rf"│ +{step.order} (?!of )", line)
        )
        assert word_of(detail.states[step.id]) in row
    drawn = (await world.agent.call("draw_map", planId=plan_id, detail=True))["progress"]
    counts = Counter[str]()
    for part in drawn["parts"]:
        counts[part["word"]] += part["count"]
    assert (drawn["word"], counts) == (word, Counter(map(word_of, detail.states.values())))
    report = await page(browser, f"/plans/{plan_id}/export.md")
    assert f"**{word}**, " in report
    past = badge_after("<h2", await page(browser, f"/plans/{plan_id}/history"))
    assert past == state
    return detail


async def check_lists(world: OrgEnv, browser: httpx2.AsyncClient, plans: list[PlanDetail]) -> None:
    ctx = context(world.agent)
    states = {str(plan.plan.id): plan.shown for plan in plans}
    every = PlanFilter(order=ListOrder.CREATION, all=True)
    listing = await plan_summaries(ctx, every)
    assert {plan.id: plan.shown for plan in listing.plans} == states
    rows: Any = await read_view(ctx, "plans", ViewQuery(state="all"))
    assert {row["planId"]: row["state"] for row in rows["plans"]} == states
    listed = await page(browser, "/plans?state=all")
    groups = {id_: Shown.TODO if state in TO_DO else state for id_, state in states.items()}
    assert listing.counts == Counter(groups.values())
    for plan_id, state in states.items():
        assert listed_state(f"p-{plan_id}", listed) == state
    for group in {*Shown} - TO_DO - {Shown.SKIPPED, Shown.UNKNOWN} | {Shown.TODO}:
        matching = {plan_id for plan_id in groups if groups[plan_id] is group}
        for order in ListOrder:
            wanted = every._replace(state=group, order=order)
            assert {plan.id for plan in (await plan_summaries(ctx, wanted)).plans} == matching
        named = await plan_summaries(ctx, every._replace(state=group, text="Random"))
        assert {plan.id for plan in named.plans} == matching
    await check_overview(ctx, states)


async def check_overview(ctx: RequestContext, states: dict[str, Shown]) -> None:
    overview = await read_overview(ctx, LastLook())
    shown = {item.row.id: item.shown for item in (*overview.trouble, *overview.running)}
    shown |= {item["row"].id: item["status"] for item in overview.finished}
    assert shown.items() <= states.items()
    missing = {state for work, state in states.items() if work not in shown}
    assert missing <= {Shown.NEEDS_YOU}


def test_interfaces_show_the_same_states_of_random_plans(shared_place: ServerDatabase) -> None:
    async def work(seed: int, calls: list[int]) -> None:
        async with make_env(shared_place, pool_size=2) as world:
            await world.set_policy(ReviewPolicy.HUMAN)
            random, crews = Random(seed), list[Crew]()  # noqa: S311 - reproducible
            for number in range(PLANS_EACH):
                made = await world.agent.call("create_research_plan", **random_plan(random))
                first = {"tool": "get_next_step", "args": {"planId": made["planId"]}}
                crews.append(Crew(world, first, decide_review, seed + number, Outcome()))
            plans = list[PlanDetail]()
            async with make_browser(world.agent) as browser:
                for number in calls:
                    await work_on_plans(world, crews, number, random)
                    # Agents may copy a canceled plan, as `next` suggests.
                    every = PlanFilter(order=ListOrder.CREATION, all=True)
                    listed = (await plan_summaries(context(world.agent), every)).plans
                    ids = sorted(
                        {*(str(crew.subject_id) for crew in crews), *(p.id for p in listed)}
                    )
                    plans = [await check_plan(world, browser, plan_id) for plan_id in ids]
                    await check_lists(world, browser, plans)
            for plan in plans:
                await check_claims(world, plan)

    @settings(max_examples=EXAMPLES)
    @given(SEEDS, CALLS)
    def work_on_any(seed: int, calls: list[int]) -> None:
        asyncio.run(work(seed, calls))

    work_on_any()


async def work_on_plans(world: OrgEnv, crews: list[Crew], calls: int, random: Random) -> None:
    for crew in crews:
        for _ in range(calls):
            if await crew.make_call():
                break
        if random.random() < 0.15:
            cancel = [{"action": "cancel_plan", "reason": "No use."}]
            await world.agent.ask(
                "modify_plan", {"planId": crew.subject_id, "modifications": cancel}
            )
    if random.random() < 0.3:
        world.clock.advance(minutes=10)


async def check_claims(world: OrgEnv, plan: PlanDetail) -> None:
    """A new agent gets a step exactly if a step is ready or stalled and the plan is not paused."""
    args = {"planId": plan.plan.id, "sessionId": "new"}
    reply = await world.agent.call("get_next_step", **args)
    states = {*plan.states.values()}
    assert plan.shown not in ENDED or states <= ENDED
    if Shown.READY in states:
        assert reply["status"] == "step_ready"
    elif Shown.STALLED not in states:
        assert reply["status"] != "step_ready"


async def check_run(world: OrgEnv, browser: httpx2.AsyncClient, run_id: str) -> RunDetail:
    ctx = context(world.agent)
    detail = await read_run_detail(ctx, run_id, RunInclude.BOARD)
    state, word = detail.shown, word_of(detail.shown)
    tool = await world.agent.call("get_run_progress", runId=run_id, detail=True)
    goes_on = any(step["jobs"]["active"] for stage in tool["stages"] for step in stage["steps"])
    by_status = {
        "completed": Shown.DONE,
        "canceled": Shown.CANCELED,
        "awaiting_feedback": Shown.NEEDS_YOU,
        "in_progress": Shown.RUNNING,
        "failed": Shown.RUNNING if goes_on else Shown.FAILED,
    }
    assert by_status[tool["status"]] is state
    text = await page(browser, f"/runs/{run_id}")
    assert f'data-status="{state}"' in text
    terminal = printed(run_display(run_view(detail), Viewport(width=140)))
    assert f" {word}" in terminal.splitlines()[1]
    drawn = (await world.agent.call("draw_map", runId=run_id, detail=True))["progress"]
    stages = [word_of(detail.state_of_stage(stage)) for stage in detail.report["stages"]]
    assert (drawn["word"], {part["word"] for part in drawn["parts"]}) == (word, {*stages})
    (listed,), _ = await list_runs(ctx, RunFilter())
    rows: Any = await read_view(ctx, "runs", ViewQuery(state="all"))
    assert (listed.shown, rows["runs"][0]["state"]) == (state, state)
    assert listed_state(f"r-{run_id}", await page(browser, "/runs")) == state
    for order in ListOrder:
        for other in (Shown.DONE, Shown.CANCELED, Shown.FAILED, Shown.NEEDS_YOU, Shown.RUNNING):
            runs, _ = await list_runs(ctx, RunFilter(state=other, order=order))
            assert bool(runs) is (other is state)
    await check_overview(ctx, {run_id: state})
    return detail


def test_interfaces_show_the_same_states_of_random_runs(shared_place: ServerDatabase) -> None:
    async def work(dag: Dag, names: list[str], seed: int, calls: list[int]) -> None:
        async with make_env(shared_place, pool_size=2) as world:
            await world.set_policy(ReviewPolicy.HUMAN)
            await world.agent.call("add_dag", definition=write_definition(dag))
            inputs = {"brief": "Go.", "items": ["x", "y"]}
            run = await world.agent.run(dag.slug, names, input=inputs)
            first = {"tool": "get_next_job", "args": {"runId": run["runId"]}}
            crew = Crew(world, first, help_run, seed, Outcome())
            async with make_browser(world.agent) as browser:
                for number in calls:
                    for _ in range(number):
                        if await crew.make_call():
                            break
                    if crew.random.random() < 0.1:
                        cancel = {"runId": run["runId"], "reason": "No use."}
                        await world.agent.ask("cancel_run", cancel)
                    await check_run(world, browser, run["runId"])

    @settings(max_examples=EXAMPLES)
    @given(dags(max_stages=3, max_steps=4), models(most=3), SEEDS, CALLS)
    def work_on_any(dag: Dag, names: list[str], seed: int, calls: list[int]) -> None:
        asyncio.run(work(dag, names, seed, calls))

    work_on_any()
