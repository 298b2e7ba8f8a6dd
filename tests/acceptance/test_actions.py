"""Every interface offers the same actions, and the server accepts these and refuses the others."""

import asyncio
import re
from random import Random
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings

from acceptance.test_shown_states import CALLS, SEEDS, context, page, work_on_plans
from dag_builders import dags, models
from naive_agents import Crew, Outcome, decide_review, help_run, random_plan
from org_env import AgentClient, Body, OrgEnv, make_env
from postgres_servers import ServerDatabase
from transport.page_client import make_browser
from waybook.app.operations.sharing import create_snapshot_link
from waybook.app.queries.work_views import ViewQuery, read_view
from waybook.cli.access import find, verbs
from waybook.cli.terminal.errors import HintedError
from waybook.core.actions import ACTIONS, Kind, action
from waybook.core.decision_context import ReviewPolicy
from waybook.core.shown import Shown
from waybook.dag.definitions.definition import write_definition
from waybook.dag.model import Dag

EXAMPLES, PLANS_EACH = 6, 2
FEEDBACK = "More."


class Served:
    """A server for the terminal that answers with one view."""

    def __init__(self, view: Body) -> None:
        self.view = view

    def read(self, *_: object, **__: object) -> Body:
        return self.view


async def view(world: OrgEnv, name: str, text: str) -> Any:  # noqa: ANN401 - JSON
    return await read_view(context(world.agent), name, ViewQuery(text, "all"))


def acts_in(html: str) -> set[str]:
    return {name for names in re.findall(r'data-act="([^"]*)"', html) for name in names.split()}


def row_of(item: str, html: str) -> str:
    return next(row for row in re.split(r"<tr\b|<li\b", html) if f'id="{item}"' in row)


async def check_interfaces(
    world: OrgEnv, browser: httpx2.AsyncClient, kind: Kind, work_id: str
) -> Any:  # noqa: ANN401 - JSON
    """Check that all interfaces offer the same actions on a plan or run; return its view."""
    if kind is Kind.PLAN:  # Record a stall, as the sweep of a server does.
        await world.agent.call("get_plan_status", planId=work_id)
    shown = await view(world, kind, work_id)
    acts = {*shown["actions"]}
    (row,) = (await view(world, f"{kind}s", work_id))[f"{kind}s"]
    assert {*row["actions"]} == acts
    assert acts_in(await page(browser, f"/{kind}s/{work_id}")) == acts
    listed = await page(browser, f"/{kind}s?state=all")
    assert acts_in(row_of(f"{kind[0]}-{work_id}", listed)) == acts
    assert acts_in(await page(browser, f"/search?part=options&q={work_id}")) == acts
    for name in verbs(kind):
        if name in acts:
            assert find(Served(shown), kind, work_id, name)[1] is action(kind, name)  # type: ignore[arg-type]
        else:
            with pytest.raises(HintedError, match=action(kind, name).refusal):
                find(Served(shown), kind, work_id, name)  # type: ignore[arg-type]
    for item in shown["steps"] if kind is Kind.PLAN else ():
        html = await page(browser, f"/plans/{work_id}/steps/{item['stepId']}")
        assert acts_in(html) == {*item["actions"]}
    return shown


async def is_accepted(agent: AgentClient, call: tuple[str, Body]) -> bool:
    """Call a tool, and return whether it is accepted and changes something."""
    tool, arguments = call
    answer = await agent.ask(tool, arguments)
    return not answer.is_error and answer.body.get("retried") != 0


async def check_plan(world: OrgEnv, shown: Body, random: Random) -> None:
    """Check that a person may do exactly what the plan and its steps offer."""
    person, plan_id = world.agent.acting_as("pat"), str(shown["planId"])
    steps: Any = shown["steps"]
    offers: Any = shown["actions"]

    async def may(name: str, *chosen: str, **values: object) -> bool:
        tool, arguments = action(Kind.PLAN, name).call(plan_id, *chosen, **values)
        return await is_accepted(person, (tool, {**arguments, "dryRun": True}))

    assert await may("edit", budget={"tokens": 5}) is ("edit" in offers)
    assert await may("cancel", reason="No use.") is ("cancel" in offers)
    for item in steps:
        can = {"retry", "reassign"} & {*item["actions"]}
        # The server also accepts to retry a step that was begun and has no holder.
        if can or item["state"] != "ready":
            assert await may("retry", item["stepId"]) is bool(can), item
        tool, arguments = action(Kind.STEP, "edit").call(
            plan_id, item["stepId"], instructions="Do it."
        )
        changed = await is_accepted(person, (tool, {**arguments, "dryRun": True}))
        assert changed is ("edit" in item["actions"])
    assert ("retry" in offers) is any("retry" in item["actions"] for item in steps)
    silent = (item for item in steps if item["state"] == "stalled")
    assert ("reassign" in offers) is any("reassign" in item["actions"] for item in silent)
    copy: Any = action(Kind.PLAN, "copy").call(plan_id, upToStep=0)
    assert await is_accepted(person, copy) is ("copy" in offers)
    assert bool(await create_snapshot_link(context(person), plan_id, 1)) is ("share" in offers)
    decisions = [act.name for act in ACTIONS[Kind.REVIEW]]
    refused = [name for name in decisions if name not in offers]
    chosen = [random.choice(decisions)] if not refused and random.random() < 0.5 else []
    for name in (*refused, *chosen):
        call: Any = action(Kind.PLAN, name).call(plan_id, feedback=FEEDBACK)
        assert await is_accepted(person, call) is (name in offers)


def test_server_accepts_exactly_the_offered_actions_on_plans(shared_place: ServerDatabase) -> None:
    async def work(seed: int, calls: list[int]) -> None:
        async with make_env(shared_place, pool_size=2) as world:
            await world.set_policy(ReviewPolicy.HUMAN)
            random, crews = Random(seed), list[Crew]()  # noqa: S311 - reproducible
            for number in range(PLANS_EACH):
                made = await world.agent.call("create_research_plan", **random_plan(random))
                first = {"tool": "get_next_step", "args": {"planId": made["planId"]}}
                crews.append(Crew(world, first, decide_review, seed + number, Outcome()))
            empty = await world.agent.plan(1)
            await world.agent.modify(empty, "remove_step", stepId=empty["stepIds"][0])
            async with make_browser(world.agent) as browser:
                for number in calls:
                    await work_on_plans(world, crews, number, random)
                    for plan_id in (*(crew.subject_id for crew in crews), empty["planId"]):
                        shown = await check_interfaces(world, browser, Kind.PLAN, str(plan_id))
                        await check_plan(world, shown, random)

    @settings(max_examples=EXAMPLES)
    @given(SEEDS, CALLS)
    def work_on_any(seed: int, calls: list[int]) -> None:
        asyncio.run(work(seed, calls))

    work_on_any()


async def check_run(world: OrgEnv, shown: Body, random: Random) -> None:
    """Check that a person may do exactly what the run offers."""
    person, run_id = world.agent.acting_as("pat"), str(shown["runId"])
    offers: Any = shown["actions"]
    stages: Any = shown["stages"]
    started = [stage["stageSlug"] for stage in stages if stage["steps"]]
    failed = [s["stageSlug"] for s in stages if (s["progress"] or {}).get("failedSteps")]
    awaiting = shown.get("awaitingFeedback") or started[-1]

    async def may(name: str, **values: object) -> bool:
        call: Any = action(Kind.RUN, name).call(run_id, **values)
        return await is_accepted(person, call)

    tries = {
        "feedback": {"stageSlug": awaiting, "feedback": FEEDBACK},
        "retry": {"stageSlug": (failed or started)[0]},
        "copy": {"fromStage": stages[0]["stageSlug"]},
        "comment": {"text": "Well?"},
        "cancel": {"reason": "No use."},
    }
    if shown["state"] == Shown.DONE:
        # The server also stores feedback on the last stage of a run that is done.
        tries.pop("feedback")
    refused = [name for name in tries if name not in offers]
    for name in (*refused, *random.sample(sorted(tries.keys() & {*offers}), 1)):
        assert await may(name, **tries[name]) is (name in offers), (name, shown)


def test_server_accepts_exactly_the_offered_actions_on_runs(shared_place: ServerDatabase) -> None:
    async def work(dag: Dag, names: list[str], seed: int, calls: list[int]) -> None:
        async with make_env(shared_place, pool_size=2) as world:
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
                    shown = await check_interfaces(world, browser, Kind.RUN, str(run["runId"]))
                    await check_run(world, shown, crew.random)

    @settings(max_examples=EXAMPLES)
    @given(dags(max_stages=3, max_steps=4), models(most=3), SEEDS, CALLS)
    def work_on_any(dag: Dag, names: list[str], seed: int, calls: list[int]) -> None:
        asyncio.run(work(dag, names, seed, calls))

    work_on_any()
