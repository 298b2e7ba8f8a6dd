"""Search by name for plans and runs, even for those that the list of the newest omits."""

import pytest

from org_env import AgentClient, OrgEnv
from waybook.app.queries import work_list
from waybook.app.queries.work_list import (
    OPEN,
    ListOrder,
    PlanFilter,
    RunFilter,
    list_runs,
    plan_summaries,
    resolve_plan,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel
from waybook.core.shown import Shown

NAMES = (
    "Lakes of the north",
    "River-delta report",
    "Rivers: delta, report",
    "Zürich Überblick",
    "Newest",
)
#: For each search text, the names that the search finds, newest first.
FOUND = {
    "lakes": ["Lakes of the north"],
    "OF THE": ["Lakes of the north"],
    "river": ["Rivers: delta, report", "River-delta report"],
    "r-delta rep": ["River-delta report"],
    "delta, report": ["Rivers: delta, report"],
    "zürich üb": ["Zürich Überblick"],
    "no such name": [],
}


def looking(agent: AgentClient) -> RequestContext:
    return RequestContext(
        services=agent.dispatcher.services, caller=agent.acting_as("pat", Channel.CLI).caller
    )


@pytest.fixture
async def ctx(own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch) -> RequestContext:
    """Return a context in which a list of plans or runs reads only the newest one."""
    monkeypatch.setattr(work_list, "MAX_WALKED", 1)
    for name in NAMES:
        await own_world.agent.plan(1, name=name)
        await own_world.agent.run(name=name)
    return looking(own_world.agent)


async def plan_names(
    ctx: RequestContext, text: str, state: Shown | None = None, creator: str | None = None
) -> list[str]:
    wanted = PlanFilter(order=ListOrder.CREATION, all=True, text=text, state=state, creator=creator)
    return [plan.name for plan in (await plan_summaries(ctx, wanted, limit=10)).plans]


async def run_names(
    ctx: RequestContext,
    text: str,
    order: ListOrder = ListOrder.CREATION,
    state: str | None = None,
    dag: str | None = None,
) -> list[str]:
    wanted = RunFilter(order=order, text=text, state=state, dag=dag)
    return [run.name for run in (await list_runs(ctx, wanted))[0]]


async def test_search_finds_old_plans_and_runs_by_the_beginning_of_a_word(
    ctx: RequestContext,
) -> None:
    for text, names in FOUND.items():
        assert await plan_names(ctx, text) == names
        for order in ListOrder:
            assert await run_names(ctx, text, order) == names, (text, order)


async def test_search_by_the_middle_of_a_word_finds_only_the_newest_names(
    ctx: RequestContext,
) -> None:
    for search in (plan_names, run_names):
        assert await search(ctx, "ewes") == ["Newest"]
        assert await search(ctx, "akes") == []


async def test_search_by_name_also_applies_state_and_creator_filters(ctx: RequestContext) -> None:
    assert await plan_names(ctx, "lakes", state=Shown.TODO) == ["Lakes of the north"]
    assert await plan_names(ctx, "lakes", state=Shown.STALLED) == []
    assert await plan_names(ctx, "lakes", creator="ann") == ["Lakes of the north"]
    assert await plan_names(ctx, "lakes", creator="bob") == []
    assert await run_names(ctx, "lakes", state=OPEN) == ["Lakes of the north"]
    assert await run_names(ctx, "lakes", state="completed") == []
    assert await run_names(ctx, "lakes", dag="no-such-workflow") == []


async def test_second_page_of_a_name_search_continues_after_the_first(ctx: RequestContext) -> None:
    order = ListOrder.CREATION
    first = await plan_summaries(ctx, PlanFilter(order=order, all=True, text="river"), limit=1)
    assert first.last is not None
    after = PlanFilter(order=order, all=True, text="river", before=first.last.id)
    rest = await plan_summaries(ctx, after, limit=10)
    assert [plan.name for plan in (*first.plans, *rest.plans)] == FOUND["river"]
    newest, has_more = await list_runs(ctx, RunFilter(order=order, text="river"), 1)
    assert has_more
    older, _ = await list_runs(ctx, RunFilter(order=order, text="river", before=newest[0].id))
    assert [run.name for run in (*newest, *older)] == FOUND["river"]


async def test_plan_can_be_selected_by_name_or_by_the_start_of_the_id(
    own_world: OrgEnv, ctx: RequestContext
) -> None:
    older = await own_world.agent.plan(1, name="Deserts")
    await own_world.agent.plan(1, name="Mountains")
    plan_id = older["planId"]
    assert (await resolve_plan(ctx, "desert")).id == plan_id
    assert (await resolve_plan(ctx, plan_id[:-1].upper())).id == plan_id
