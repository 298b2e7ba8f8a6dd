"""Totals of the sections of the overview, which count a limited number of plans and runs."""

import pytest

from app.test_plan_names import looking
from org_env import OrgEnv
from waybook.app.queries import overview as overview_query
from waybook.app.queries.overview import LastLook, SectionTotal, read_overview
from waybook.store import overview as overview_rows


async def test_total_of_running_work_is_a_minimum_at_the_limit(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = looking(own_world.agent)
    before = (await read_overview(ctx, LastLook())).totals.running.total
    await own_world.agent.plan(1)
    await own_world.agent.run()
    exact = SectionTotal(before + 2, is_minimum=False)
    assert (await read_overview(ctx, LastLook())).totals.running == exact
    for module in (overview_query, overview_rows):
        monkeypatch.setattr(module, "MAX_COUNTED", 1)
    assert (await read_overview(ctx, LastLook())).totals.running.is_minimum
