"""Bytes that pages take on the wire: few enough for a slow mobile connection."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from browser.served_site import Site, serve_site
from full_ids import full_id
from org_env import AgentClient, Body, OrgEnv, make_step
from transport.wire import BROWSER_HEADERS, WireResponse, fetch
from waybook.transport.http.html.fragments import VERSION_HEADER
from waybook.transport.http.html.layout import NAMES, asset_url

SCRIPTS = [name for name in NAMES if name.endswith(".js")]
#: The other scripts are only on the pages that need them.
ON_EVERY_PAGE = ("htmx.min.js", "waybook.js", "live.js")
ASSET = re.compile(r'(?:src|href|data-worker)="(/static/[^"]+)"')
MAX_CHANGE_BYTES = 6_000


@pytest.fixture
def world(alone: OrgEnv) -> OrgEnv:
    """Return a PostgreSQL 18 environment, as page sizes do not depend on the version."""
    return alone


@pytest.fixture
async def site(world: OrgEnv) -> AsyncIterator[Site]:
    async with serve_site(world) as made:
        yield made


async def test_style_sheet_and_scripts_stay_within_size_limits(site: Site) -> None:
    sizes = {name: (await fetch(site.address, asset_url(name))).encoded_bytes for name in NAMES}
    assert sizes["waybook.css"] <= 6_000
    assert sum(sizes[name] for name in ON_EVERY_PAGE) <= 20_500, sizes
    assert sum(sizes[name] for name in SCRIPTS) <= 40_000, sizes


@pytest.mark.parametrize(
    ("address", "limit"), [("/", 12_000), ("/plans", 12_000), ("/inbox", 12_000)]
)
async def test_page_full_of_data_stays_within_size_element_and_asset_limits(
    site: Site, agent: AgentClient, address: str, limit: int
) -> None:
    for n in range(51):
        steps = [make_step(title=f"Step {k} of {n}") for k in range(5)]
        taken = await agent.take(await agent.plan(steps, name=f"A plan of the number {n}"))
        arguments = {"stepId": taken["stepId"], "summary": f"Is {n} right? " * 20}
        await agent.call("request_user_review", **arguments, resultSummary={"found": [n] * 30})
    page = await fetch(site.address, address)
    assert page.received_bytes <= limit, page.received_bytes
    assert len(re.findall(r"<(?!/)", page.text)) <= 15_000
    assert len(re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="/', page.text)) <= 5


async def make_plan_in_progress(world: OrgEnv, steps: int) -> Body:
    """Return a plan with dependencies, half done, each step after another pause."""
    titles = (f"Compare the sources on river {n} with what was measured" for n in range(steps))
    listed = [
        make_step(
            title=title, dependsOn=sorted({m for m in (n - 1 - n % 3, n - 2 - n % 7) if m > 0})
        )
        for n, title in enumerate(titles, start=1)
    ]
    plan = await world.agent.plan(listed)
    for n in range(steps // 2):
        await work_on(world, plan, n)
    return plan


async def work_on(world: OrgEnv, plan: Body, number: int) -> None:
    """Complete the next step of a plan, after a pause."""
    world.clock.advance(minutes=1 + 7 * number % 50)
    taken = await world.agent.take(plan)
    world.clock.advance(minutes=1 + 5 * number % 13)
    await world.agent.submit(taken, usage={"inputTokens": 900, "outputTokens": 30})


async def load_cold(site: Site, path: str) -> tuple[WireResponse, int]:
    """Return a page, and the bytes of all bodies that a browser without a cache receives."""
    page = await fetch(site.address, path)
    assets = {*ASSET.findall(page.text)}
    assert len(assets) >= 4
    fetched = await asyncio.gather(*(fetch(site.address, asset) for asset in assets))
    return page, sum(answer.encoded_bytes for answer in (page, *fetched))


@pytest.mark.parametrize(("steps", "limit"), [(13, 30_000), (200, 45_000)])
async def test_plan_page_and_its_changes_stay_within_size_limits(
    site: Site, world: OrgEnv, steps: int, limit: int
) -> None:
    plan = await make_plan_in_progress(world, steps)
    path = f"/plans/{full_id(plan['planId'])}"
    page, received = await load_cold(site, path)
    assert received <= limit, (received, page.received_bytes)
    version = re.search(r'data-version="(\w+)"', page.text)
    number = re.search(r'"page":"(\d+)"', page.text)
    assert version
    assert number
    shown = version[1]
    for n in range(5):
        await work_on(world, plan, n)
        headers = {**BROWSER_HEADERS, "hx-request": "true", VERSION_HEADER: shown}
        part = await fetch(site.address, f"{path}?part=whole&page={number[1]}", headers)
        assert "plan-status" in re.findall(r'data-fragment="([\w-]+)"', part.text)
        assert part.received_bytes <= MAX_CHANGE_BYTES, part.received_bytes
        shown = part.headers[VERSION_HEADER]
