"""Map of a run in a browser: zoom, scrolling, touch, minimap and live updates."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from browser.sample_runs import make_large_run
from browser.served_site import Site, serve_site
from org_env import Body, make_env
from postgres_servers import ServerDatabase

#: Minimum height in pixels of text in a map at its original size.
MIN_TEXT_PIXELS = 11


@dataclass(frozen=True, slots=True)
class LargeRun:
    """Run of 500 steps, which tests must not change, and the site with its page."""

    site: Site
    run: Body

    async def open(self, page: Page) -> Body:
        await page.goto(f"{self.site.address}/runs/{self.run['runId']}?view=map")
        await expect(page.locator("#live")).to_have_text("live")
        await expect(page.locator(".minimap")).to_be_visible()
        return self.run


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def large(place: ServerDatabase) -> AsyncIterator[LargeRun]:
    async with make_env(place) as world:
        run = await make_large_run(world.agent)
        async with serve_site(world) as site:
            yield LargeRun(site, run)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(context: BrowserContext, large: LargeRun) -> AsyncIterator[Page]:
    """Yield a browser tab; fail the test at the end if the tab had errors."""
    page = await context.new_page()
    large.site.watch(page)
    yield page
    assert large.site.faults == []


async def scroll_of(map_: Locator) -> list[float]:
    place: list[float] = await map_.evaluate("map => [map.scrollLeft, map.scrollTop]")
    return place


async def width_of(page: Page) -> float:
    width: float = await page.locator("#map svg").evaluate(
        "svg => svg.getBoundingClientRect().width"
    )
    return width


async def test_run_map_opens_on_the_current_step_with_readable_text(
    tab: Page, large: LargeRun
) -> None:
    run = await large.open(tab)
    box = tab.locator(f"#map [data-step='{run['failed']['stepKey']}']")
    await expect(box).to_be_in_viewport()
    seen, window = await box.bounding_box(), await tab.locator("#map").bounding_box()
    assert seen is not None
    assert window is not None
    assert window["x"] <= seen["x"]
    assert seen["x"] + seen["width"] <= window["x"] + window["width"]
    assert window["y"] <= seen["y"] <= window["y"] + window["height"]
    sizes = await tab.locator("#map text").evaluate_all(
        "all => all.map(text => parseFloat(getComputedStyle(text).fontSize))"
    )
    assert min(sizes) >= MIN_TEXT_PIXELS


async def test_run_map_zooms_with_buttons_and_keys(tab: Page, large: LargeRun) -> None:
    await large.open(tab)
    level, map_ = tab.locator("[data-zoom-level]"), tab.locator("#map")
    width = await width_of(tab)
    await tab.get_by_role("button", name="Zoom in").click()
    await expect(level).to_have_text("125 %")
    assert round(await width_of(tab) / width, 2) == 1.25
    await tab.get_by_role("button", name="Zoom out").click()
    await expect(level).to_have_text("100 %")
    await map_.focus()
    await map_.press("+")
    await expect(level).to_have_text("125 %")
    await map_.press("-")
    await map_.press("-")
    await expect(level).to_have_text("80 %")
    await map_.press("0")
    fits = "map => map.scrollWidth <= map.clientWidth && map.scrollHeight <= map.clientHeight"
    assert await map_.evaluate(fits)
    await expect(tab.locator(".minimap")).to_be_hidden()
    await map_.press("1")
    await expect(level).to_have_text("100 %")
    await expect(map_).to_be_focused()
    await tab.get_by_role("button", name="Fit").click()
    assert await map_.evaluate(fits)


async def test_run_map_zooms_at_the_pointer_with_control_and_wheel(
    tab: Page, large: LargeRun
) -> None:
    run = await large.open(tab)
    box = tab.locator(f"#map [data-step='{run['failed']['stepKey']}'] rect").first
    before = await box.bounding_box()
    assert before is not None
    x, y = before["x"] + before["width"] / 2, before["y"] + before["height"] / 2
    await tab.mouse.move(x, y)
    await tab.keyboard.down("Control")
    await tab.mouse.wheel(0, -150)
    await tab.keyboard.up("Control")
    await expect(tab.locator("[data-zoom-level]")).to_have_text("165 %")
    after = await box.bounding_box()
    assert after is not None
    assert abs(after["x"] + after["width"] / 2 - x) <= 3
    assert abs(after["y"] + after["height"] / 2 - y) <= 3
    top = await tab.evaluate("scrollY")
    await tab.mouse.wheel(0, 40)
    await expect(tab.locator("[data-zoom-level]")).to_have_text("165 %")
    assert await tab.evaluate("scrollY") == top, "the map scrolls, not the page"


async def test_dragging_the_run_map_opens_no_step(tab: Page, large: LargeRun) -> None:
    run = await large.open(tab)
    map_ = tab.locator("#map")
    await tab.get_by_role("button", name="Zoom in").click()
    await tab.get_by_role("button", name="Zoom in").click()
    failed = tab.locator(f"#map [data-step='{run['failed']['stepKey']}']")
    await failed.scroll_into_view_if_needed()
    left, top = await scroll_of(map_)
    box = await failed.bounding_box()
    assert box is not None
    await tab.mouse.move(box["x"] + 20, box["y"] + 20)
    await tab.mouse.down()
    await tab.mouse.move(box["x"] + 60, box["y"] + 50, steps=4)
    await tab.mouse.up()
    assert await scroll_of(map_) == [max(left - 40, 0), max(top - 30, 0)]
    assert "/steps/" not in tab.url
    link = tab.locator("#map a:has([data-step])").first
    await link.focus()
    await link.press("Enter")
    await expect(tab).to_have_url(re.compile("/steps/"))


async def test_run_map_zooms_with_two_fingers(browser: Browser, large: LargeRun) -> None:
    context = await browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    )
    page = await context.new_page()
    large.site.watch(page)
    await large.open(page)
    await page.locator("#map").scroll_into_view_if_needed()
    area = await page.locator("#map").bounding_box()
    assert area is not None
    x, y = area["x"] + area["width"] / 2, area["y"] + 120
    devtools = await context.new_cdp_session(page)

    async def touch(kind: str, *distances: float) -> None:
        points = [{"x": x + way, "y": y, "id": n} for n, way in enumerate(distances)]
        await devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    await touch("touchStart", -30, 30)
    for distance in (35, 40, 50, 60):
        await touch("touchMove", -distance, distance * 0.9)
    await touch("touchEnd")
    await expect(page.locator("[data-zoom-level]")).not_to_have_text("100 %")
    level = await page.locator("[data-zoom-level]").inner_text()
    assert 150 <= int(level.split()[0]) <= 220, level
    assert await page.evaluate("visualViewport.scale") == 1, "the page is not zoomed"
    await context.close()
    assert large.site.faults == []


async def test_clicking_the_minimap_scrolls_the_run_map(tab: Page, large: LargeRun) -> None:
    await large.open(tab)
    map_, minimap = tab.locator("#map"), tab.locator(".minimap")
    for _ in range(4):
        await tab.get_by_role("button", name="Zoom in").click()
    area = await minimap.bounding_box()
    assert area is not None
    await minimap.click(position={"x": 8, "y": 8})
    assert await scroll_of(map_) == [0, 0]
    await minimap.click(position={"x": area["width"] - 8, "y": area["height"] - 8})
    end = await map_.evaluate(
        "map => [map.scrollWidth - map.clientWidth, map.scrollHeight - map.clientHeight]"
    )
    assert [round(place) for place in await scroll_of(map_)] == end
    seen = await minimap.locator("rect").bounding_box()
    assert seen is not None
    assert abs(seen["x"] + seen["width"] - area["x"] - area["width"]) <= area["width"] / 4


async def test_live_update_of_run_keeps_zoom_scroll_and_focus(page: Page, site: Site) -> None:
    agent = site.world.agent
    run = await agent.run("dialectic", ["opus"], input="Build a lighthouse.")
    await agent.submit_documents(await agent.job(run))
    failing = await agent.job(run)
    await agent.fail_job(failing, "The source is gone.")
    await page.goto(f"{site.address}/runs/{run['runId']}?view=map")
    await expect(page.locator("#live")).to_have_text("live")
    map_, level = page.locator("#map"), page.locator("[data-zoom-level]")
    for _ in range(3):
        await page.get_by_role("button", name="Zoom in").click()
    await map_.evaluate("map => map.scrollTo(70, 50)")
    await map_.focus()
    place = await scroll_of(map_)
    assert place[1] == 50
    drawn = await page.locator(".minimap path[data-status=completed]").get_attribute("d")
    failed = page.locator(f"#map [data-step='{failing['stepKey']}']")
    await expect(failed).to_have_attribute("data-status", "failed")
    received: list[str | None] = []
    page.on("response", lambda answer: received.append(answer.headers.get("waybook-version")))
    await agent.call("retry_failed", runId=run["runId"], stageSlug=failing["stageSlug"])
    await expect(failed).not_to_have_attribute("data-status", "failed")
    await expect(page.locator(".minimap path[data-status=failed]")).to_have_count(0)
    # An SVG element that was inserted as HTML would have no size.
    assert await failed.evaluate("box => box.getBBox().width > 0")
    await expect(level).to_have_text("195 %")
    assert await scroll_of(map_) == place
    await expect(map_).to_be_focused()
    assert drawn
    assert any(received), "only changed fragments are sent"


async def test_run_map_keeps_zoom_and_scroll_when_the_next_stage_starts(
    page: Page, site: Site
) -> None:
    agent = site.world.agent
    run = await agent.run("dialectic", ["opus"], input="Build a lighthouse.")
    await page.goto(f"{site.address}/runs/{run['runId']}?view=map")
    await expect(page.locator("#live")).to_have_text("live")
    map_ = page.locator("#map")
    for _ in range(3):
        await page.get_by_role("button", name="Zoom in").click()
    await map_.evaluate("map => map.scrollTo(60, 40)")
    await map_.focus()
    await agent.work_off(run)
    await agent.feedback(run, "thesis")
    await expect(page.locator("#lane-1")).to_contain_text("Running")
    await expect(page.locator("[data-zoom-level]")).to_have_text("195 %")
    widest = await map_.evaluate("map => map.scrollWidth - map.clientWidth")
    assert await scroll_of(map_) == [min(60, widest), 40]
    await expect(map_).to_be_focused()
    await expect(page.locator(".minimap")).to_have_count(1)
