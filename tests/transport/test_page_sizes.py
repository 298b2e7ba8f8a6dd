"""Compressed pages are small enough for a slow mobile connection."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest

from browser.sample_runs import make_large_run
from browser.served_site import Site, serve_site
from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient, Body, OrgEnv, make_step
from transport.wire import BROWSER_HEADERS, WireResponse, fetch
from waybook.transport.http.html.assets import NAMES, asset_url
from waybook.transport.http.html.layout import VERSION_HEADER

pytestmark = ON_POSTGRES_18

SCRIPTS = [name for name in NAMES if name.endswith(".js")]
#: Scripts that every page loads; other scripts are only on the pages that need them.
ON_EVERY_PAGE = ("htmx.min.js", "waybook.js", "live.js")
ASSET = re.compile(r'(?:src|href|data-worker)="(/static/[^"]+)"')
MAX_CHANGE_BYTES = 6_000
MAX_PLAN_CHANGE_BYTES = 3_000
#: Limits for the page of a run with 500 steps: bytes to load without a cache, and DOM nodes.
MAX_RUN_BYTES = 60_000
MAX_RUN_NODES = 3_000


@pytest.fixture
async def site(world: OrgEnv) -> AsyncIterator[Site]:
    async with serve_site(world) as made:
        yield made


async def test_style_sheet_and_scripts_stay_within_size_limits(site: Site) -> None:
    sizes = {name: (await fetch(site.address, asset_url(name))).encoded_bytes for name in NAMES}
    assert sizes["waybook.css"] <= 9_000
    assert sum(sizes[name] for name in ON_EVERY_PAGE) <= 20_500, sizes
    assert sum(sizes[name] for name in SCRIPTS) <= 40_000, sizes


async def test_page_with_much_data_stays_within_size_and_element_limits(
    site: Site, agent: AgentClient
) -> None:
    for n in range(51):
        steps = [make_step(title=f"Step {k} of {n}") for k in range(5)]
        taken = await agent.take(await agent.plan(steps, name=f"A plan of the number {n}"))
        arguments = {"stepId": taken["stepId"], "summary": f"Is {n} right? " * 20}
        await agent.call("request_user_review", **arguments, resultSummary={"found": [n] * 30})
    for address in ("/", "/plans", "/inbox"):
        page = await fetch(site.address, address)
        assert page.received_bytes <= 12_000, (address, page.received_bytes)
        assert len(re.findall(r"<(?!/)", page.text)) <= 15_000
        assert len(re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="/', page.text)) <= 5


async def make_plan_in_progress(world: OrgEnv, steps: int) -> Body:
    """Create a plan with dependencies; half of its steps are done."""
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
    world.clock.advance(minutes=1 + 7 * number % 50)
    taken = await world.agent.take(plan)
    world.clock.advance(minutes=1 + 5 * number % 13)
    await world.agent.submit(taken, usage={"inputTokens": 900, "outputTokens": 30})


async def load_cold(site: Site, path: str) -> tuple[WireResponse, int]:
    """Return a page and the number of bytes that a browser with an empty cache loads for it."""
    page = await fetch(site.address, path)
    assets = {*ASSET.findall(page.text)}
    assert len(assets) >= 4
    fetched = await asyncio.gather(*(fetch(site.address, asset) for asset in assets))
    return page, sum(answer.encoded_bytes for answer in (page, *fetched))


@pytest.mark.parametrize(("steps", "limit"), [(13, 45_000), (200, 60_000)])
async def test_plan_page_and_live_updates_stay_within_size_limits(
    site: Site, world: OrgEnv, steps: int, limit: int
) -> None:
    plan = await make_plan_in_progress(world, steps)
    path = f"/plans/{plan['planId']}"
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
        assert part.received_bytes <= MAX_PLAN_CHANGE_BYTES, part.received_bytes
        shown = part.headers[VERSION_HEADER]


LIVE_PART = re.compile(
    r'<\w+ id="(?P<id>[\w-]+)"[^>]*?hx-get="(?P<path>[^"]+)" hx-vals=\'(?P<query>[^\']+)\'[^>]*>'
)
VERSION = re.compile(r'data-version="(\w+)"')


class OpenPage:
    """Page in a simulated browser; `refresh` requests a live update of all its parts."""

    def __init__(self, site: Site, page: WireResponse) -> None:
        self._site = site
        self._parts = [match for match in LIVE_PART.finditer(page.text) if VERSION.search(match[0])]
        assert self._parts
        self._versions = {match["id"]: VERSION.findall(match[0])[0] for match in self._parts}
        #: Names of the fragments in the last update.
        self.fragments: list[str] = []

    async def refresh(self) -> int:
        received, self.fragments = 0, []
        for match in self._parts:
            headers = {
                **BROWSER_HEADERS,
                "hx-request": "true",
                VERSION_HEADER: self._versions[match["id"]],
            }
            path = f"{match['path']}?{urlencode(json.loads(match['query']))}"
            part = await fetch(self._site.address, path, headers)
            self._versions[match["id"]] = part.headers[VERSION_HEADER]
            self.fragments += re.findall(r'data-fragment="([\w-]+)"', part.text)
            received += part.received_bytes
        return received


#: Limit for a live update of a run page: 3,000 bytes, and the headers of two responses.
MAX_RUN_CHANGE_BYTES = 4_000


@pytest.mark.parametrize(
    ("view", "most", "expected", "separate"),
    [
        ("grid", MAX_RUN_CHANGE_BYTES, {"run-facts", "run-events"}, "stage-1"),
        ("map", MAX_CHANGE_BYTES, {"run-facts", "lane-0"}, "box-"),
        ("history", MAX_RUN_CHANGE_BYTES, {"run-facts"}, "run-events"),
    ],
)
async def test_run_page_of_500_steps_stays_within_size_limits(
    site: Site, world: OrgEnv, view: str, most: int, expected: set[str], separate: str
) -> None:
    run = await make_large_run(world.agent)
    page, received = await load_cold(site, f"/runs/{run['runId']}?view={view}")
    assert received <= MAX_RUN_BYTES, (received, page.received_bytes)
    assert len(re.findall(r"<(?!/)", page.text)) <= MAX_RUN_NODES
    tab = OpenPage(site, page)
    stage = run["failed"]["stageSlug"]
    await world.agent.call("retry_failed", runId=run["runId"], stageSlug=stage)
    assert await tab.refresh() <= most
    seen = {*tab.fragments}
    for n in range(12):
        world.clock.advance(minutes=1 + 5 * n % 13)
        job = await world.agent.job(run)
        assert await tab.refresh() <= most
        await world.agent.submit_documents(job)
        assert await tab.refresh() <= most
        assert expected <= {*tab.fragments}
        seen |= {*tab.fragments}
    assert any(name.startswith(separate) for name in seen), "fragments are sent one by one"
    world.clock.advance(minutes=1)
    await tab.refresh()
    assert tab.fragments == [], "an update without changes has no fragments"


async def test_update_of_full_front_page_sends_only_changes(site: Site, world: OrgEnv) -> None:
    for n in range(30):
        await world.agent.plan(4, name=f"Compare the sources on river {n} with what was measured")
        world.clock.advance(minutes=1)
    plan = await world.agent.plan(4, name="Rivers of the north")
    tab = OpenPage(site, await fetch(site.address, "/"))
    for n in range(3):
        await work_on(world, plan, n)
        received = await tab.refresh()
        assert received <= MAX_CHANGE_BYTES
        assert {*tab.fragments} == {"figures", "running", "pulse"}
    world.clock.advance(minutes=1)
    await tab.refresh()
    assert tab.fragments == []
