"""Sections of the overview page, which list and count plans and runs up to a limit."""

import pytest

from app.test_work_names import looking
from org_env import AgentClient, Body, OrgEnv
from waybook.app.queries import overview as overview_query
from waybook.app.queries.overview import LastLook, SectionTotal, read_overview
from waybook.plan.model import StepStatus
from waybook.store import overview as overview_rows


async def test_overview_shows_a_count_at_the_limit_as_a_minimum(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = looking(own_world.agent)
    before = (await read_overview(ctx, LastLook())).totals["running"].total
    await own_world.agent.plan(1)
    await own_world.agent.run()
    exact = SectionTotal(before + 2, is_minimum=False)
    assert (await read_overview(ctx, LastLook())).totals["running"] == exact
    for module in (overview_query, overview_rows):
        monkeypatch.setattr(module, "MAX_COUNTED", 1)
    assert (await read_overview(ctx, LastLook())).totals["running"].is_minimum


async def test_overview_lists_failed_steps_of_open_plans_before_closed_plans(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, ctx = own_world.agent, looking(own_world.agent)
    await fail_steps(agent, await agent.plan(3, name="Open"))
    # A plan without open steps is completed, even if all its steps have failed.
    await fail_steps(agent, await agent.plan(2, name="Completed"))
    monkeypatch.setattr(overview_rows, "MAX_TROUBLED", 1)
    overview = await read_overview(ctx, LastLook(), most=1)
    assert [entry.row.name for entry in overview.trouble] == ["Open"]
    assert overview.totals["in_trouble"] == SectionTotal(1, is_minimum=True)


async def test_overview_counts_a_plan_with_several_failed_steps_once(own_world: OrgEnv) -> None:
    agent, ctx = own_world.agent, looking(own_world.agent)
    for name in ("Rivers", "Lakes"):
        await fail_steps(agent, await agent.plan(3, name=name))
    overview = await read_overview(ctx, LastLook())
    assert {entry.row.name for entry in overview.trouble} == {"Rivers", "Lakes"}
    assert overview.totals["in_trouble"] == SectionTotal(2, is_minimum=False)
    assert overview.totals["running"] == SectionTotal(0, is_minimum=False)


async def fail_steps(agent: AgentClient, plan: Body) -> None:
    for step_id in plan["stepIds"][:2]:
        await agent.modify(plan, "fail_step", stepId=step_id, reason="Closed.")


def test_step_statuses_have_distinct_initials_for_the_overview() -> None:
    assert {*overview_query.STATUS_BY_INITIAL.values()} == {*StepStatus}
