"""Search for plans by a part of their names, beyond the plans that are read without an index."""

import pytest

from full_ids import full_id
from org_env import AgentClient, OrgEnv
from waybook.app.queries import work_list
from waybook.app.queries.work_list import (
    ListOrder,
    PlanFilter,
    plan_summaries,
    resolve_plan,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel
from waybook.plan.model import PlanState

NAMES = (
    "Lakes of the north",
    "River-delta report",
    "Rivers: delta, report",
    "Zürich Überblick",
    "Newest",
)


def looking(agent: AgentClient) -> RequestContext:
    return RequestContext(
        services=agent.dispatcher.services, caller=agent.acting_as("pat", Channel.CLI).caller
    )


@pytest.fixture
async def ctx(own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch) -> RequestContext:
    """Return a context in an org with some plans, of which lists read only the newest."""
    monkeypatch.setattr(work_list, "MAX_WALKED", 1)
    for name in NAMES:
        await own_world.agent.plan(1, name=name)
    return looking(own_world.agent)


async def search_names(
    ctx: RequestContext,
    text: str,
    state: PlanState | None = None,
    creator: str | None = None,
    before: str | None = None,
) -> list[str]:
    wanted = PlanFilter(
        order=ListOrder.CREATION,
        all=True,
        text=text,
        state=state,
        creator=creator,
        before=before,
    )
    page = await plan_summaries(ctx, wanted, limit=10)
    return [plan.name for plan in page.plans if plan.name in NAMES]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lakes", ["Lakes of the north"]),
        ("OF THE", ["Lakes of the north"]),
        ("river", ["Rivers: delta, report", "River-delta report"]),
        ("r-delta rep", ["River-delta report"]),
        ("delta, report", ["Rivers: delta, report"]),
        ("zürich üb", ["Zürich Überblick"]),
        ("no such plan", []),
    ],
)
async def test_search_finds_older_plan_by_the_beginning_of_a_word(
    ctx: RequestContext, text: str, names: list[str]
) -> None:
    assert await search_names(ctx, text) == names


async def test_search_for_part_of_a_word_reads_only_newest_plans(
    ctx: RequestContext,
) -> None:
    assert await search_names(ctx, "ewes") == ["Newest"]
    assert await search_names(ctx, "akes") == []


async def test_search_by_name_applies_the_other_filters(ctx: RequestContext) -> None:
    assert await search_names(ctx, "lakes", state=PlanState.PLANNING) == ["Lakes of the north"]
    assert await search_names(ctx, "lakes", state=PlanState.STALLED) == []
    assert await search_names(ctx, "lakes", creator="ann") == ["Lakes of the north"]
    assert await search_names(ctx, "lakes", creator="bob") == []


async def test_second_page_of_plans_by_name_starts_after_the_first(ctx: RequestContext) -> None:
    wanted = PlanFilter(order=ListOrder.CREATION, all=True, text="river")
    first = await plan_summaries(ctx, wanted, limit=1)
    assert first.last is not None
    rest = await search_names(ctx, "river", before=first.last.id)
    assert [*(plan.name for plan in first.plans), *rest] == [NAMES[2], NAMES[1]]


async def test_plan_is_resolved_by_name_and_by_start_of_id(
    own_world: OrgEnv, ctx: RequestContext
) -> None:
    older = await own_world.agent.plan(1, name="Deserts")
    await own_world.agent.plan(1, name="Mountains")
    plan_id = full_id(older["planId"])
    assert (await resolve_plan(ctx, "desert")).id == plan_id
    assert (await resolve_plan(ctx, plan_id[:-1].upper())).id == plan_id
