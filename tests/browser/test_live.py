"""Live updates of open pages in a browser."""

import asyncio
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Page, Route, expect

from browser.served_site import Site, serve_site
from org_env import OrgEnv, make_step

TABS = 12
FORM = """<details id="more"><summary>More</summary>
<select id="which"><option>one<option>two</select><input id="sure" type="checkbox"></details>
<textarea id="said"></textarea>"""


async def test_open_page_shows_changes_live(page: Page, site: Site) -> None:
    agent = site.world.agent
    plan = await agent.plan(3, name="Rivers of the north")
    await page.goto(f"{site.address}/plans")
    mark, row = page.locator("#live"), page.get_by_role("row").filter(has_text="Rivers")
    await expect(mark).to_have_text("live")
    step = await agent.take(plan)
    await expect(row.get_by_role("img", name="Running")).to_be_visible()
    await agent.submit(step)
    await expect(row).to_contain_text("1 of 3")
    await agent.plan(1, name="Lakes of the south")
    await expect(page.get_by_role("row").filter(has_text="Lakes")).to_contain_text("0 of 1")
    await expect(page.locator("#waiting")).to_be_hidden()
    step = await agent.take(plan)
    await agent.review(step, summary="Look at this.")
    await expect(page.locator("#waiting")).to_have_text("1")
    await expect(row.get_by_role("img", name="Needs you")).to_be_visible()


async def test_live_update_keeps_text_typed_into_a_field(page: Page, site: Site) -> None:
    """Both updates with the input field and updates without it must keep the text."""
    offered = [FORM]

    async def with_form(route: Route) -> None:
        answer = await route.fetch()
        text = (await answer.text()).replace("<table", f"{offered[0]}<table")
        await route.fulfill(response=answer, body=text)

    agent = site.world.agent
    plan = await agent.plan(3, name="Rivers of the north")
    await page.route(lambda url: urlsplit(url).path == "/plans", with_form)
    await page.goto(f"{site.address}/plans")
    await expect(page.locator("#live")).to_have_text("live")
    field, row = page.locator("#said"), page.get_by_role("row").filter(has_text="Rivers")
    await page.locator("#more summary").click()
    await page.locator("#which").select_option("two")
    await page.locator("#sure").check()
    await field.fill("Half a sentence")
    await field.press("Home")
    step = await agent.take(plan)
    await expect(row.get_by_role("img", name="Running")).to_be_visible()
    await expect(field).to_be_focused()
    await page.keyboard.type("At least h")
    await expect(field).to_have_value("At least hHalf a sentence")
    await expect(page.locator("#more")).to_have_attribute("open", "")
    await expect(page.locator("#which")).to_have_value("two")
    await expect(page.locator("#sure")).to_be_checked()
    offered[0] = ""
    await agent.submit(step)
    await expect(page.locator("#plans")).to_have_attribute("data-stale", "")
    await expect(field).to_have_value("At least hHalf a sentence")
    await field.fill("")
    await page.locator("#which").select_option("one")
    await page.locator("#sure").uncheck()
    await agent.take(plan)
    await expect(row).to_contain_text("1 of 3")
    await expect(field).to_have_count(0)


async def test_many_open_tabs_reconnect_after_server_restart(
    world: OrgEnv, context: BrowserContext
) -> None:
    """All tabs share one event stream: a browser opens at most six connections to a server."""
    plan = await world.agent.plan(4, name="Rivers of the north")
    async with serve_site(world) as site:
        tabs = [await context.new_page() for _ in range(TABS)]
        for tab in tabs:
            await tab.goto(f"{site.address}/plans")
        await asyncio.gather(*(expect(tab.locator("#live")).to_have_text("live") for tab in tabs))
        await world.agent.submit(await world.agent.take(plan))
        await asyncio.gather(*(_shows(tab, "1 of 4") for tab in tabs))
        port = urlsplit(site.address).port
    await asyncio.gather(*(expect(t.locator("#live")).to_have_text("reconnecting") for t in tabs))
    # The server is down during this change, so the pages must show it after they reconnect.
    await world.agent.submit(await world.agent.take(plan))
    async with serve_site(world, port or 0):
        await asyncio.gather(*(expect(tab.locator("#live")).to_have_text("live") for tab in tabs))
        await asyncio.gather(*(_shows(tab, "2 of 4") for tab in tabs))
        await world.agent.submit(await world.agent.take(plan))
        await asyncio.gather(*(_shows(tab, "3 of 4") for tab in tabs))


async def test_page_shows_live_updates_without_shared_worker(page: Page, site: Site) -> None:
    plan = await site.world.agent.plan(2, name="Rivers of the north")
    await page.add_init_script("delete self.SharedWorker")
    await page.goto(f"{site.address}/plans")
    await expect(page.locator("#live")).to_have_text("live")
    await site.world.agent.submit(await site.world.agent.take(plan))
    await _shows(page, "1 of 2")


async def _shows(tab: Page, done: str) -> None:
    await expect(tab.get_by_role("row").filter(has_text="Rivers")).to_contain_text(done)


async def test_live_update_of_plan_page_replaces_only_changed_elements(
    page: Page, site: Site
) -> None:
    agent = site.world.agent
    plan = await agent.plan(20, name="Rivers of the north")
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    await expect(page.locator("#live")).to_have_text("live")
    await page.evaluate(
        "for (const row of document.querySelectorAll('.steps li[id]')) row.marked = true"
    )
    await page.locator("#s5 a").focus()
    received: list[str | None] = []
    page.on("response", lambda answer: received.append(answer.headers.get("waybook-version")))
    taken = await agent.take(plan)
    await expect(page.locator("#s1")).to_contain_text("Running")
    box = page.locator(f'#map [data-step="{plan["stepIds"][0]}"]')
    await expect(box).to_have_attribute("data-status", "in_progress")
    await agent.submit(taken)
    await expect(page.locator("#s1")).to_contain_text("Done")
    await expect(box).to_have_attribute("data-status", "completed")
    # An SVG element that was inserted as HTML would have no size.
    assert await box.evaluate("box => box.getBBox().width > 0")
    await expect(page.locator("#plan-status")).to_contain_text("1 of 20")
    await expect(page.locator("#s5 a")).to_be_focused()
    marked = "[...document.querySelectorAll('.steps li[id]')].filter(row => row.marked).length"
    assert await page.evaluate(marked) == 19
    assert any(received)


async def test_plan_page_keeps_typed_review_answer_while_other_steps_change(
    page: Page, site: Site
) -> None:
    agent = site.world.agent
    steps = [make_step("Look up 1."), make_step("Look up 2."), make_step("3.", dependsOn=[1])]
    plan = await agent.plan(steps, name="Rivers of the north")
    taken = await agent.take(plan)
    await agent.review(taken, summary="Look at this.")
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    await expect(page.locator("#live")).to_have_text("live")
    field = page.locator("#review textarea").first
    await field.evaluate("field => field.closest('details')?.setAttribute('open', '')")
    await field.fill("Half a sentence")
    other = await agent.call("get_next_step", planId=plan["planId"])
    assert other["status"] == "step_ready", other
    await expect(page.locator("#s2")).to_contain_text("Running")
    await expect(field).to_have_value("Half a sentence")
