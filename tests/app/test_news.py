"""Change events are published if and only if a plan or run changes."""

from collections.abc import AsyncIterator

import pytest

from org_env import OrgEnv
from waybook.background import render_all_orgs, sweep_all_orgs
from waybook.core.events import ChangeEvent


class Ear:
    """Subscriber that records all change events."""

    def __init__(self) -> None:
        self.heard: list[ChangeEvent] = []

    def on_event(self, event: ChangeEvent) -> None:
        self.heard.append(event)

    def on_gap(self) -> None:
        raise AssertionError

    def on_close(self) -> None:
        raise AssertionError

    def take(self) -> list[ChangeEvent]:
        taken, self.heard = self.heard, []
        return taken


@pytest.fixture
async def ear(own_world: OrgEnv) -> AsyncIterator[Ear]:
    ear = Ear()
    with own_world.dispatcher.bus.subscription(own_world.agent.org_id, ear):
        yield ear


async def seq(world: OrgEnv, subject_id: str) -> int:
    return (await world.entries(world.agent.org_id, subject_id))[-1].seq


async def test_plan_change_publishes_event_with_number_of_last_audit_entry(
    own_world: OrgEnv, ear: Ear
) -> None:
    agent = own_world.agent
    plan = await agent.plan(3)
    plan_id = plan["planId"]
    assert ear.take() == [ChangeEvent("plan", plan_id, 1, list_changed=True)]
    step = await agent.take(plan)
    assert ear.take() == [
        ChangeEvent("plan", plan_id, await seq(own_world, plan_id), list_changed=True)
    ]
    await agent.submit(step)
    assert ear.take() == [ChangeEvent("plan", plan_id, await seq(own_world, plan_id))]
    step = await agent.take(plan)
    await agent.call("request_user_review", stepId=step["stepId"], summary="Look.")
    assert [news.list_changed for news in ear.take()] == [False, True]
    await agent.call("submit_user_decision", planId=plan_id, decision="approve")
    assert ear.take() == [
        ChangeEvent("plan", plan_id, await seq(own_world, plan_id), list_changed=True)
    ]


async def test_call_that_changes_nothing_publishes_no_event(own_world: OrgEnv, ear: Ear) -> None:
    agent = own_world.agent
    plan = await agent.plan(2)
    step = await agent.take(plan, idempotencyKey="k")
    ear.take()
    await agent.status(plan)
    await agent.call("get_step_context", stepId=step["stepId"])
    await agent.take(plan, idempotencyKey="k")
    await agent.refused("submit_user_decision", planId=plan["planId"], decision="approve")
    await agent.call(
        "modify_plan",
        planId=plan["planId"],
        modifications=[{"action": "fail_step", "stepId": step["stepId"], "reason": "x"}],
        dryRun=True,
    )
    await own_world.other_org.plan(1)
    assert ear.take() == []


async def test_detected_stall_publishes_an_event(own_world: OrgEnv, ear: Ear) -> None:
    plan = await own_world.agent.plan(2)
    await own_world.agent.take(plan)
    ear.take()
    own_world.clock.advance(minutes=31)
    assert await sweep_all_orgs(own_world.dispatcher.services) == 1
    version = await seq(own_world, plan["planId"])
    assert ear.take() == [ChangeEvent("plan", plan["planId"], version, list_changed=True)]


async def test_changes_and_rendering_of_a_run_publish_events(own_world: OrgEnv, ear: Ear) -> None:
    agent = own_world.agent
    run = await agent.run("dialectic", "abc")
    run_id = run["runId"]
    version = await seq(own_world, run_id)
    assert ear.take() == [ChangeEvent("run", run_id, version, list_changed=True)]
    job = await agent.job(run)
    assert ear.take() == [ChangeEvent("run", run_id, await seq(own_world, run_id))]
    await agent.submit_documents(job)
    assert ear.take() == [ChangeEvent("run", run_id, await seq(own_world, run_id))]
    await agent.work_off(run)
    assert any(news.list_changed for news in ear.take())
    while await render_all_orgs(own_world.dispatcher.services):
        assert ear.take() == [ChangeEvent("run", run_id, await seq(own_world, run_id))]
