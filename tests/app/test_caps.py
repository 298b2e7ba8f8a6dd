"""Caps on work: reservations under them, and what a person decides at a cap."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from org_env import AgentClient, Body, OrgEnv
from waybook.core.decision_context import Channel, ReviewPolicy, Scope, expand_scopes

COST = {"scope": "plan", "unit": "costUsd"}


def cap(limit: float, **more: object) -> Body:
    return {**COST, "limit": limit, **more}


class Work:
    """A plan on which workers reserve and settle work."""

    def __init__(self, agent: AgentClient, plan: Body, *caps: Body) -> None:
        self.agent, self.plan, self.caps = agent, plan, [*caps]

    async def reserve(self, agent: str = "codex", **maximum: object) -> Body:
        more = {"maximum": maximum} if maximum else {}
        return await self.agent.call(
            "reserve_work", planId=self.plan["planId"], agent=agent, caps=self.caps, **more
        )

    async def settle(self, reserved: Body, outcome: str = "completed", **usage: object) -> Body:
        return await self.agent.call(
            "settle_work",
            reservationId=reserved["reservationId"],
            outcome=outcome,
            usage=usage,
        )


async def make_work(world: OrgEnv, *caps: Body) -> Work:
    return Work(world.agent, await world.agent.plan(), *caps)


async def test_work_pauses_at_a_cap_until_a_person_raises_the_limit(world: OrgEnv) -> None:
    work = await make_work(world, cap(1.0))
    first = await work.reserve(costUsd=0.75)
    assert first["status"] == "granted"
    waiting = await work.reserve(costUsd=0.5)
    assert waiting["status"] == "waiting"
    await work.settle(first, costUsd=0.7)
    paused = await work.reserve(costUsd=0.5)
    assert (paused["status"], paused["cap"]["used"]) == ("paused", 0.7)
    person = world.agent.acting_as("pat", Channel.DASHBOARD)
    raised = await person.call("decide_cap", capId=paused["cap"]["capId"], limit=2)
    assert raised["status"] == "raised"
    # The command line passes its limit with every call; the limit of the person stays.
    assert (await work.reserve(costUsd=0.5))["status"] == "granted"


async def test_ended_work_gets_no_reservation_and_the_plan_stays_open(world: OrgEnv) -> None:
    work = await make_work(world, cap(0.1))
    paused = await work.reserve(costUsd=1)
    person = world.agent.acting_as("pat", Channel.CLI)
    await person.call("decide_cap", capId=paused["cap"]["capId"], end=True)
    assert (await work.reserve(costUsd=0.01))["status"] == "ended"
    assert (await world.agent.status(work.plan))["status"] == "planning"
    entries = await world.entries(world.agent.org_id, str(world.agent.org_id))
    actions = [entry.details for entry in entries]
    assert [action in str(actions) for action in ("cap_set", "cap_ended")] == [True, True]


async def test_agent_cannot_raise_a_cap_under_the_human_policy(world: OrgEnv) -> None:
    work = await make_work(world, cap(1))
    await world.set_policy(ReviewPolicy.HUMAN)
    paused = await work.reserve(costUsd=2)
    refused = await world.agent.refused("decide_cap", capId=paused["cap"]["capId"], limit=9)
    assert refused["code"] == "FORBIDDEN"
    caller = replace(world.agent.caller, scopes=expand_scopes([Scope.PLAN_WRITE]))
    worker = AgentClient(world.agent.dispatcher, caller)
    raised = Work(worker, work.plan, cap(50))
    assert (await raised.reserve(costUsd=20))["cap"]["limit"] == 1
    lowered = Work(worker, work.plan, cap(0.5))
    assert (await lowered.reserve(costUsd=20))["cap"]["limit"] == 0.5


async def test_unknown_maximum_reserves_all_that_is_left(world: OrgEnv) -> None:
    work = await make_work(world, cap(100, unit="tokens"), cap(2))
    first = await work.reserve(costUsd=0.5)
    assert first["maximum"] == {"costUsd": 0.5, "tokens": 100}
    assert (await work.reserve(costUsd=0.5))["status"] == "waiting"
    settled = await work.settle(first, inputTokens=30, outputTokens=10)
    assert settled["status"] == "settled"
    assert (await work.settle(first, inputTokens=30, outputTokens=10))["repeated"] is True
    assert (await work.reserve(costUsd=0.5))["maximum"]["tokens"] == 60


async def test_failures_in_a_row_and_steps_pause_the_work(world: OrgEnv) -> None:
    work = await make_work(
        world, cap(2, unit="failures"), cap(5, unit="steps", scope="agent", period="day")
    )
    for outcome in ("failed", "completed", "failed", "given_back", "failed"):
        await work.settle(await work.reserve(), outcome)
    paused = await work.reserve()
    assert (paused["status"], paused["cap"]["unit"]) == ("paused", "failures")
    person = world.agent.acting_as("pat", Channel.DASHBOARD)
    await person.call("decide_cap", capId=paused["cap"]["capId"], limit=9)
    await work.settle(await work.reserve())
    paused = await work.reserve()
    assert (paused["cap"]["unit"], paused["cap"]["used"]) == ("steps", 5)
    assert "resumesAt" in paused
    assert (await work.reserve(agent="claude"))["status"] == "granted"


async def test_reservation_of_a_killed_worker_counts_as_used(world: OrgEnv) -> None:
    work = await make_work(world, cap(1))
    reserved = await work.reserve(costUsd=1)
    assert (await work.reserve(costUsd=1))["status"] == "waiting"
    world.clock.advance(minutes=14)
    report = {"sessionId": "w1", "agent": "codex", "state": "working"}
    renewed = await world.agent.call(
        "report_worker", **report, reservationId=reserved["reservationId"]
    )
    assert renewed["reservation"] == "open"
    world.clock.advance(minutes=14)
    assert (await work.reserve(costUsd=1))["status"] == "waiting"
    world.clock.advance(minutes=2)
    paused = await work.reserve(costUsd=0.5)
    assert (paused["status"], paused["cap"]["used"]) == ("paused", 1)
    # If the worker settles late, only what it used counts.
    await work.settle(reserved, costUsd=0.4)
    assert (await work.reserve(costUsd=0.5))["status"] == "granted"
    (shown,) = [c for c in await caps_of(world) if c["of"] == work.plan["planId"]]
    assert (shown["used"], shown["reserved"], shown["paused"]) == (0.4, 0.5, False)


async def caps_of(world: OrgEnv) -> list[Body]:
    view = await world.dispatcher.read_view(world.agent.caller, "workers", {})
    return view["caps"]  # type: ignore[return-value]  # a list of objects


async def test_used_amount_of_a_day_ends_at_midnight(world: OrgEnv) -> None:
    work = await make_work(world, cap(1, period="day"))
    await work.settle(await work.reserve(costUsd=1), costUsd=1)
    assert (await work.reserve(costUsd=1))["status"] == "paused"
    world.clock.advance(days=1)
    assert (await work.reserve(costUsd=1))["status"] == "granted"


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_reservations_never_exceed_a_cap(world: OrgEnv, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not a secret
    limits = [cap(1.0), cap(700, unit="tokens", scope="org"), cap(8, unit="steps", scope="agent")]
    work = await make_work(world, *limits)
    spent = [0, 0]

    async def worker(number: int) -> int:
        done = 0
        for _ in range(12):
            wanted = random.randint(1, 400_000), random.randint(1, 300)
            agent = f"agent {number % 3}"
            got = await work.reserve(agent, costUsd=wanted[0] / 10**6, tokens=wanted[1])
            if got["status"] != "granted":
                continue
            used = random.randint(0, wanted[0]), random.randint(0, wanted[1])
            spent[0] += used[0]
            spent[1] += used[1]
            await work.settle(got, costUsd=used[0] / 10**6, inputTokens=used[1])
            done += 1
        return done

    done = await asyncio.gather(*(worker(number) for number in range(6)))
    assert sum(done) > 0
    shown = {(c["scope"], c["of"]): c for c in await caps_of(world)}
    assert shown["plan", work.plan["planId"]]["used"] == spent[0] / 10**6 <= 1
    assert shown["org", ""]["used"] == spent[1] <= 700
    assert all(c["used"] <= c["limit"] and c["reserved"] == 0 for c in shown.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"maximum": {"tokens": "many"}},
        {"caps": [{"scope": "plan", "unit": "euros", "limit": 1}]},
        {"caps": [{"scope": "plan", "unit": "tokens", "limit": -1}]},
        {"leaseSeconds": 5},
    ],
)
async def test_invalid_reservation_is_refused_and_sets_no_cap(world: OrgEnv, wrong: Body) -> None:
    plan = await world.agent.plan()
    arguments = {"planId": plan["planId"], "agent": "codex", "caps": [cap(1)], **wrong}
    refused = await world.agent.refused("reserve_work", **arguments)
    assert refused["code"] in {"INVALID_INPUT", "TOO_LARGE"}
    assert [c for c in await caps_of(world) if c["of"] == plan["planId"]] == []
