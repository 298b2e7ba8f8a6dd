"""Large maps are drawn outside the event loop, one at a time per org."""

import asyncio
import threading
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import pytest

from org_env import OrgEnv
from transport.page_client import make_browser
from waybook.app.request import layout_worker as draughting
from waybook.app.request.definition_cache import DefinitionCache, builtin_dags, definition_body
from waybook.app.request.layout_worker import (
    MAX_INLINE_COST,
    DrawingJob,
    DrawingProcess,
    LayoutWorker,
    Links,
    render,
)
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane
from waybook.dag.diagram.svg import Drawing
from waybook.errors import TooLarge
from waybook.store.runs.load import DefinitionRow

OURS, THEIRS = UUID(int=1), UUID(int=2)
LARGE = MAX_INLINE_COST + 1


def thread_name() -> str:
    return threading.current_thread().name


async def test_only_large_maps_are_drawn_in_another_thread() -> None:
    layout_worker = LayoutWorker()
    assert (
        await layout_worker.run(OURS, MAX_INLINE_COST, thread_name)
        == threading.current_thread().name
    )
    assert (await layout_worker.run(OURS, LARGE, thread_name)).startswith("large definitions")


async def test_drawing_a_large_map_does_not_block_event_loop() -> None:
    layout_worker, seen = LayoutWorker(), threading.Event()
    drawing = asyncio.create_task(layout_worker.run(OURS, LARGE, partial(seen.wait, 1)))
    # If the drawing ran in the event loop, `seen.set()` would not run before the drawing has ended.
    await asyncio.sleep(0)
    seen.set()
    assert await drawing


def test_definition_cache_compiles_each_workflow_version_once_per_org() -> None:
    charts, body = DefinitionCache(), definition_body(builtin_dags()["dialectic"].dag)
    rows = [
        DefinitionRow(1, "Dialectic", body, "", datetime(2026, 1, 1, tzinfo=UTC), "ann", "mine")
    ]
    first = charts.current(OURS, "mine", rows)
    slug = first.dag.slug
    assert charts.current(OURS, slug, rows) is first
    assert charts.current(THEIRS, slug, rows) is not first
    assert charts.current(OURS, slug, [rows[0]._replace(version=2)]) is not first


async def test_large_maps_in_replies_and_pages_are_drawn_by_layout_worker(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draughting, "MAX_INLINE_COST", 0)
    drawn = list[str]()
    draw = DrawingProcess.draw

    def noting(self: DrawingProcess, job: bytes) -> str:
        drawn.append(threading.current_thread().name)
        return draw(self, job)

    monkeypatch.setattr(DrawingProcess, "draw", noting)
    agent = world.agent
    run, plan = await agent.run(), await agent.plan()
    await agent.call("draw_map", runId=run["runId"])
    await agent.call("draw_map", dagSlug="dialectic")
    await agent.call("draw_map", planId=plan["planId"])
    async with make_browser(agent) as browser:
        for page in (
            f"/runs/{run['runId']}?view=map",
            f"/runs/{run['runId']}/export.svg",
            "/dags/dialectic",
            f"/plans/{plan['planId']}",
            f"/plans/{plan['planId']}/export.svg",
        ):
            assert (await browser.get(page)).status_code == 200
    assert len(drawn) == 8
    assert all(name.startswith("large maps") for name in drawn), (
        "a map was drawn outside the worker threads"
    )


def make_job(steps: int = 30, width: int | None = None) -> DrawingJob:
    keys = [DiagramStep(f"s{n}", f"Step {n}") for n in range(steps)]
    edges = tuple((keys[a].key, keys[b].key) for b in range(steps) for a in range(b))
    lane = Lane(slug="plan", name="", steps=tuple(keys), edges=edges)
    links = Links(step_prefix="/steps/")
    return DrawingJob(Drawing(Diagram(name="Dense", lanes=(lane,))), width, links)


async def test_map_drawn_by_layout_worker_equals_map_drawn_directly() -> None:
    job, layout_worker = make_job(), LayoutWorker()
    assert job.weight > MAX_INLINE_COST
    svg = await layout_worker.picture(OURS, job)
    assert svg == render(job)
    assert 'href="/steps/s29"' in svg


async def test_layout_worker_draws_the_same_map_only_once_per_org(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = list[bytes]()

    def draw(_: DrawingProcess, job: bytes) -> str:
        drawn.append(job)
        return 1000 * "x"

    monkeypatch.setattr(DrawingProcess, "draw", draw)
    layout_worker = LayoutWorker()
    for _ in range(3):
        await layout_worker.picture(OURS, make_job())
    assert len(drawn) == 1
    await layout_worker.picture(THEIRS, make_job())
    assert len(drawn) == 2, "nothing is shared between orgs"
    monkeypatch.setattr(draughting, "MAX_CACHED_BYTES", 3_000)
    for width in range(1_000, 1_010):
        await layout_worker.picture(OURS, make_job(width=width))
    assert layout_worker._cached_bytes == sum(map(len, layout_worker._cache.values())) == 3_000


async def test_layout_worker_draws_the_next_map_after_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout_worker = LayoutWorker()
    monkeypatch.setattr(draughting, "MAX_DRAWING_SECONDS", 0.0)
    with pytest.raises(TooLarge):
        await layout_worker.picture(OURS, make_job())
    monkeypatch.undo()
    assert await layout_worker.picture(OURS, make_job()) == render(make_job())


async def test_layout_worker_is_restarted_after_being_killed() -> None:
    layout_worker = LayoutWorker()
    await layout_worker.picture(OURS, make_job())
    process = layout_worker._worker._process
    assert process is not None
    process.kill()
    process.wait()
    assert await layout_worker.picture(OURS, make_job(width=900)) == render(make_job(width=900))
