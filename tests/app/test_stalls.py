"""Stalled steps: when they are found, who records them, and that they are recorded once."""

import asyncio
import json

import pytest

from org_env import AgentClient, Body, FakeClock, OrgEnv, make_step
from patience import PATIENCE_SECONDS
from statements import lock_rows
from waybook import background
from waybook.background import sweep_all_orgs
from waybook.errors import Busy
from waybook.transport.http.metrics import collect_metrics


async def noted(world: OrgEnv, plan: Body) -> list[str]:
    """Return the stalls and resumptions in the plan's audit, oldest first."""
    entries = await world.entries(world.agent.org_id, plan["planId"])
    actions = [json.loads(entry.details).get("action") for entry in entries]
    return [action for action in actions if action in {"stall_detected", "resumed"}]


async def test_step_stalls_after_more_than_thirty_minutes_of_inactivity(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan)
    clock.advance(minutes=30)
    status = await agent.status(plan)
    assert (status["status"], status["stalled"], status["stalledSteps"]) == ("executing", False, [])
    clock.advance(minutes=1.5)
    status = await agent.status(plan)
    assert (status["status"], status["derivedStatus"], status["stalled"]) == (
        "stalled",
        "executing",
        True,
    )
    assert status["stalledSteps"] == [
        {"stepId": taken["stepId"], "stepOrder": 1, "minutes": 31, "heldBy": "ann"}
    ]


async def test_concurrent_get_plan_status_calls_record_stall_once(
    world: OrgEnv, agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan()
    await agent.take(plan)
    clock.advance(minutes=31)
    seen = await asyncio.gather(*[agent.status(plan) for _ in range(6)])
    assert {status["status"] for status in seen} == {"stalled"}
    assert await noted(world, plan) == ["stall_detected"]


@pytest.mark.parametrize(
    "tool", ["get_research_context", "get_step_context", "list_active_plans", "ping"]
)
async def test_read_tools_except_get_plan_status_record_no_stalls(
    world: OrgEnv, agent: AgentClient, clock: FakeClock, tool: str
) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan)
    clock.advance(minutes=31)
    named = {"get_research_context": {"planId": plan["planId"]}}
    named["get_step_context"] = {"stepId": taken["stepId"]}
    await agent.call(tool, **named.get(tool, {}))
    assert await noted(world, plan) == []


async def test_modifying_a_stalled_plan_sets_the_status_to_executing(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan()
    await agent.take(plan)
    clock.advance(minutes=31)
    await agent.status(plan)
    (listed,) = (await agent.call("list_active_plans"))["plans"]
    assert listed["status"] == "stalled"
    reply = await agent.modify(plan, "add_steps", steps=[make_step()])
    assert reply["planStatus"] == "executing"


async def test_background_sweep_records_stalled_plans_of_every_org(own_world: OrgEnv) -> None:
    own_world.other_org_may_change = True
    ours = await own_world.agent.plan()
    await own_world.agent.take(ours)
    await own_world.other_org.take(own_world.other_org_plan)
    fresh = await own_world.agent.plan()
    own_world.clock.advance(minutes=31)
    await own_world.agent.take(fresh)
    assert await sweep_all_orgs(own_world.dispatcher.services) == 2
    assert (await own_world.agent.status(ours))["status"] == "stalled"
    assert (await own_world.agent.status(fresh))["status"] == "executing"
    assert await noted(own_world, ours) == ["stall_detected"]
    assert await sweep_all_orgs(own_world.dispatcher.services) == 0


async def test_concurrent_background_sweeps_record_each_stall_once(own_world: OrgEnv) -> None:
    agent = own_world.agent
    plans = [await agent.plan() for _ in range(5)]
    for plan in plans:
        await agent.take(plan)
    own_world.clock.advance(minutes=31)
    swept = await asyncio.gather(*[sweep_all_orgs(own_world.dispatcher.services) for _ in range(4)])
    assert sum(swept) == len(plans)
    for plan in plans:
        assert await noted(own_world, plan) == ["stall_detected"]


async def test_audit_entry_of_stall_sweep_names_waybook_as_actor(own_world: OrgEnv) -> None:
    plan = await own_world.agent.plan()
    await own_world.agent.take(plan)
    own_world.clock.advance(minutes=31)
    await sweep_all_orgs(own_world.dispatcher.services)
    last = (await own_world.entries(own_world.agent.org_id, plan["planId"]))[-1]
    assert (last.event, last.actor, last.channel) == ("plan_modified", "waybook", "sweep")


async def test_stall_sweep_skips_locked_plan(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [await own_world.agent.plan() for _ in range(3)]
    for plan in plans:
        await own_world.agent.take(plan)
    own_world.clock.advance(minutes=31)
    monkeypatch.setattr(own_world.database.wire, "lock_timeout", "50ms")
    monkeypatch.setattr(own_world.database.wire, "pooled", True)
    async with own_world.database.org_transaction(own_world.agent.org_id) as tx:
        await tx.send(lock_rows("plan", plans[0]["planId"]))
        assert await sweep_all_orgs(own_world.dispatcher.services) == 2
    assert await sweep_all_orgs(own_world.dispatcher.services) == 1


async def test_stall_sweep_continues_after_database_errors(
    monkeypatch: pytest.MonkeyPatch, world: OrgEnv
) -> None:
    swept = asyncio.Event()
    faults = [Busy(), Busy()]

    async def sweep(_: object) -> int:
        if faults:
            raise faults.pop()
        swept.set()
        return 0

    monkeypatch.setattr(background, "sweep_all_orgs", sweep)
    # Make this process the leader, because every other process delays its first sweep.
    monkeypatch.setattr(world.dispatcher.services.leadership, "is_leader", True)
    task = asyncio.create_task(background.stall_sweep_loop(world.dispatcher.services, 0))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await swept.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_plan_progress_lists_stalled_steps_with_minutes_of_inactivity(
    agent: AgentClient, clock: FakeClock
) -> None:
    plan = await agent.plan()
    taken = await agent.take(plan)
    clock.advance(minutes=31.5)
    progress = await agent.call("get_run_progress", planId=plan["planId"])
    assert progress["stalled"] is True
    assert progress["stalledSteps"] == [
        {"stepId": taken["stepId"], "stepOrder": 1, "minutes": 31, "heldBy": "ann"}
    ]
    assert progress["progress"] == {"percent": 0, "done": 0, "total": 3}
    assert progress["stages"][0]["progress"]["totalSteps"] == 3
    await agent.submit(taken)
    progress = await agent.call("get_run_progress", planId=plan["planId"])
    assert not {"stalled", "stalledSteps"} & set(progress)


async def test_stall_sweep_counts_stalled_plans_and_steps_for_the_metrics(
    own_world: OrgEnv,
) -> None:
    services, agent = own_world.dispatcher.services, own_world.agent
    assert not any("stalled" in m.name for m in collect_metrics(own_world.dispatcher))
    plan = await agent.plan()
    await agent.take(plan)
    await agent.take(plan, another=True)
    await agent.take(await agent.plan())
    own_world.clock.advance(minutes=31)
    await agent.take(await agent.plan())
    await sweep_all_orgs(services)
    metrics = collect_metrics(own_world.dispatcher)
    gauges = {m.name: m.value for m in metrics if "stalled" in m.name}
    assert gauges == {"waybook_stalled_plans": 2, "waybook_stalled_steps": 3}


async def next_checks(world: OrgEnv) -> dict[str, bool]:
    """Return, for each started plan, whether the time of the next stall check is set."""
    (rows,) = await world.database.read_org(
        world.agent.org_id,
        "select name, stall_check_at is not null from plan where status <> 'planning'",
    )
    return {name: bool(is_set) for name, is_set in rows}


async def test_stall_sweep_finds_step_claimed_after_the_previous_sweep(
    own_world: OrgEnv,
) -> None:
    agent, services = own_world.agent, own_world.dispatcher.services
    plan = await agent.plan(steps=[make_step(), make_step(stallMinutes=5)])
    await agent.take(plan)
    assert await sweep_all_orgs(services) == 0
    await agent.take(plan, another=True)
    own_world.clock.advance(minutes=6)
    assert await sweep_all_orgs(services) == 1


async def test_stall_sweep_finds_added_step_with_short_stall_time(own_world: OrgEnv) -> None:
    agent, services = own_world.agent, own_world.dispatcher.services
    plan = await agent.plan(steps=[make_step()])
    taken = await agent.take(plan)
    assert await sweep_all_orgs(services) == 0
    await agent.modify(plan, "add_steps", steps=[make_step(stallMinutes=5)])
    await agent.submit(taken)
    await agent.take(plan)
    own_world.clock.advance(minutes=6)
    assert await sweep_all_orgs(services) == 1


async def test_stall_sweep_checks_only_plans_with_claimed_steps(own_world: OrgEnv) -> None:
    agent, services = own_world.agent, own_world.dispatcher.services
    busy, idle = await agent.plan(2, name="busy"), await agent.plan(2, name="idle")
    await agent.take(busy)
    await agent.submit(await agent.take(idle))
    assert await sweep_all_orgs(services) == 0
    assert await next_checks(own_world) == {"busy": True, "idle": False}
    await agent.take(idle)
    own_world.clock.advance(minutes=31)
    assert await sweep_all_orgs(services) == 2
    assert await next_checks(own_world) == {"busy": False, "idle": False}
