"""Forecasts on the pages of plans: what they are based on, and when it is too early for one."""

import re

import pytest

from database_fixtures import ON_POSTGRES_18
from org_env import Body, OrgEnv, make_step
from transport.page_client import Browser, send, visible_text

pytestmark = ON_POSTGRES_18

NEEDED = "of the 5 earlier plans that a forecast needs"


async def work(world: OrgEnv, plan: Body, steps: int, *, cost: float, minutes: int = 10) -> None:
    for _ in range(steps):
        taken = await world.agent.take(plan)
        world.clock.advance(minutes=minutes)
        await world.agent.submit(taken, usage={"inputTokens": 1, "costUsd": cost, "model": "m"})


async def finish_plans(world: OrgEnv, count: int, *, cost: float, title: str = "Other") -> None:
    """Complete plans of three steps; a step of each plan costs a dollar more than of the last."""
    for number in range(count):
        steps = [make_step(title=f"{title} {step}") for step in range(3)]
        await work(world, await world.agent.plan(steps), 3, cost=cost + number)


async def shown(browser: Browser, plan: Body) -> str:
    return visible_text((await browser.get(f"/plans/{plan['planId']}")).text)


def dollars(text: str) -> list[float]:
    """Return the middle, the low and the high end of the forecast of the cost."""
    match = re.search(r"\$([\d.,]+) \(\$([\d.,]+) to \$([\d.,]+)\) of work left", text)
    assert match, text
    return [float(number.replace(",", "")) for number in match.groups()]


@pytest.mark.parametrize("earlier", [0, 4])
async def test_plan_page_without_enough_earlier_plans_shows_no_forecast(
    browser: Browser, world: OrgEnv, earlier: int
) -> None:
    await finish_plans(world, earlier, cost=1)
    plan = await world.agent.plan(3)
    await work(world, plan, 2, cost=1)
    some = f"only {earlier}" if earlier else "none"
    assert f"Too early for a forecast: {some} {NEEDED}" in await shown(browser, plan)


async def test_cheap_plan_among_expensive_plans_gets_a_cheap_forecast(
    browser: Browser, world: OrgEnv
) -> None:
    # Seven plans at 8 to 14 dollars a step, then one of twelve steps that costs four dollars.
    await finish_plans(world, 7, cost=8)
    plan = await world.agent.plan(12)
    start = await shown(browser, plan)
    assert dollars(start) == [130, 96, 170]
    assert "from 7 earlier plans" in start
    await work(world, plan, 6, cost=1 / 3)
    middle, low, high = dollars(await shown(browser, plan))
    assert low <= 2 <= high
    assert middle < 6
    await work(world, plan, 5, cost=1 / 3)
    middle, low, high = dollars(await shown(browser, plan))
    assert low <= 0.33 <= high
    assert middle < 1


async def test_three_plans_with_the_same_steps_are_preferred(
    browser: Browser, world: OrgEnv
) -> None:
    await finish_plans(world, 5, cost=100)
    await finish_plans(world, 3, cost=1, title="Same")
    plan = await world.agent.plan([make_step(title=f"Same {step}") for step in range(3)])
    text = await shown(browser, plan)
    assert "from 3 earlier plans with the same steps" in text
    assert dollars(text) == [6, 3, 9]


async def test_simulated_plans_are_not_used_for_forecasts(browser: Browser, world: OrgEnv) -> None:
    world.database.is_simulated = True
    await finish_plans(world, 5, cost=1)
    world.database.is_simulated = False
    plan = await world.agent.plan(3)
    assert f"none {NEEDED}" in await shown(browser, plan)
    (entry, *_) = await world.entries(world.agent.org_id, plan["planId"])
    assert "simulated" not in str(entry)


async def test_plan_copy_page_shows_forecast_for_the_steps_left_to_do(
    browser: Browser, world: OrgEnv
) -> None:
    plan = await world.agent.plan(8)
    path = f"/plans/{plan['planId']}/copy"
    text = visible_text((await browser.get(path)).text)
    assert f"8 of 8 steps Forecast Too early for a forecast: none {NEEDED}" in text
    for _ in range(5):
        await work(world, await world.agent.plan(2), 2, cost=0.25)
    await work(world, plan, 6, cost=0.25)
    text = visible_text((await browser.get(path)).text)
    assert "2 of 8 steps Forecast 20 min, $0.50 from 5 earlier plans" in text
    reply = await send(browser, path, **{"name": "Kept", "from": "3", "step": "preview"})
    assert reply.status_code == 200
    assert "6 of 8 steps Forecast 60 min, $1.50" in visible_text(reply.text)
    assert 'value="Kept"' in reply.text
    assert '<option value="3" selected>' in reply.text
