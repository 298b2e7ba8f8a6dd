"""Search for runs by a part of their names, beyond the runs that are read without an index."""

import pytest

from app.test_plan_names import looking
from org_env import OrgEnv
from waybook.app.queries import work_list
from waybook.app.queries.work_list import OPEN, ListOrder, RunFilter, list_runs
from waybook.app.request.request_context import RequestContext

NAMES = ("Lakes of the north", "River-delta report", "Rivers: delta, report", "Newest")


@pytest.fixture
async def ctx(own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch) -> RequestContext:
    """Return a context in an org with some runs, of which searches read only the newest."""
    monkeypatch.setattr(work_list, "MAX_WALKED", 1)
    for name in NAMES:
        await own_world.agent.run(name=name)
    return looking(own_world.agent)


async def search_names(
    ctx: RequestContext,
    text: str,
    *,
    order: ListOrder = ListOrder.CREATION,
    state: str | None = None,
    dag: str | None = None,
) -> list[str]:
    wanted = RunFilter(order=order, text=text, state=state, dag=dag)
    return [run.name for run in (await list_runs(ctx, wanted)).runs]


@pytest.mark.parametrize("order", ListOrder)
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("lakes", ["Lakes of the north"]),
        ("OF THE", ["Lakes of the north"]),
        ("river", ["Rivers: delta, report", "River-delta report"]),
        ("r-delta rep", ["River-delta report"]),
        ("delta, report", ["Rivers: delta, report"]),
        ("no such run", []),
    ],
)
async def test_search_finds_older_run_by_the_beginning_of_a_word(
    ctx: RequestContext, text: str, names: list[str], order: ListOrder
) -> None:
    assert await search_names(ctx, text, order=order) == names


async def test_search_for_part_of_a_word_reads_only_newest_runs(
    ctx: RequestContext,
) -> None:
    assert await search_names(ctx, "ewes") == ["Newest"]
    assert await search_names(ctx, "akes") == []


async def test_search_for_runs_by_name_applies_the_other_filters(ctx: RequestContext) -> None:
    assert await search_names(ctx, "lakes", state=OPEN) == ["Lakes of the north"]
    assert await search_names(ctx, "lakes", state="completed") == []
    assert await search_names(ctx, "lakes", dag="no-such-workflow") == []


async def test_second_page_of_runs_by_name_starts_after_the_first(ctx: RequestContext) -> None:
    wanted = RunFilter(order=ListOrder.CREATION, text="river")
    first = await list_runs(ctx, wanted, 1)
    assert [run.name for run in first.runs] == [NAMES[2]]
    assert first.more
    rest = await list_runs(
        ctx, RunFilter(order=ListOrder.CREATION, text="river", before=first.runs[0].id)
    )
    assert [run.name for run in rest.runs] == [NAMES[1]]
