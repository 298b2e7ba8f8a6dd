"""Large maps are drawn beside the calls, one of each org at a time."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest

from transport.faces import a_browser
from waybook.errors import Busy
from waybook.usecases import draughting
from waybook.usecases.charts import Charts, body_of, builtin_charts
from waybook.usecases.draughting import MOST_WAITING, SMALL, Draughtsman
from worlds import World

OURS, THEIRS = UUID(int=1), UUID(int=2)
LARGE = SMALL + 1


def thread_name() -> str:
    return threading.current_thread().name


async def test_what_is_small_is_drawn_at_once_and_what_is_large_beside() -> None:
    draughtsman = Draughtsman()
    assert await draughtsman.draw(OURS, SMALL, thread_name) == threading.current_thread().name
    assert (await draughtsman.draw(OURS, LARGE, thread_name)).startswith("drawing")


async def test_everybody_goes_on_while_a_large_map_is_drawn() -> None:
    draughtsman, seen = Draughtsman(), threading.Event()
    drawing = asyncio.create_task(draughtsman.draw(OURS, LARGE, partial(seen.wait, 1)))
    # Were it drawn here, nobody could say so before it is done.
    await asyncio.sleep(0)
    seen.set()
    assert await drawing


async def test_nobody_waits_for_more_than_one_map_of_another_org() -> None:
    draughtsman, drawn, go_on = Draughtsman(), list[UUID](), threading.Event()

    def work(org_id: UUID) -> Callable[[], None]:
        def done() -> None:
            go_on.wait(1)
            drawn.append(org_id)

        return done

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for org_id in (*[OURS] * MOST_WAITING, THEIRS):
            group.create_task(draughtsman.draw(org_id, LARGE, work(org_id)))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await draughtsman.draw(OURS, LARGE, work(OURS))
        go_on.set()
    assert drawn == [OURS, THEIRS, *[OURS] * (MOST_WAITING - 1)]


def test_a_definition_is_checked_once_for_each_org() -> None:
    charts, body = Charts(), body_of(builtin_charts()["dialectic"].dag)
    rows = [(1, "Dialectic", body, "", None, "ann")]
    first = charts.current(OURS, "mine", rows).chart
    slug = first.dag.slug
    assert charts.current(OURS, slug, rows).chart is first
    assert charts.current(THEIRS, slug, rows).chart is not first
    assert charts.current(OURS, slug, [(2, *rows[0][1:])]).chart is not first


async def test_every_face_has_maps_drawn_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draughting, "SMALL", 0)
    asked = list[UUID]()
    draw = Draughtsman.draw

    async def noting(
        self: Draughtsman, org_id: UUID, weight: int, work: Callable[[], object]
    ) -> object:
        assert weight > 0
        asked.append(org_id)
        return await draw(self, org_id, weight, work)

    monkeypatch.setattr(Draughtsman, "draw", noting)
    agent = world.agent
    run = await agent.run()
    await agent.call("draw_map", runId=run["runId"])
    await agent.call("draw_map", dagSlug="dialectic")
    async with a_browser(agent) as browser:
        for page in (
            f"/runs/{run['runId']}",
            f"/runs/{run['runId']}/export.svg",
            "/dags/dialectic",
        ):
            assert (await browser.get(page)).status_code == 200
    assert asked == [agent.org_id] * 5
