"""Front page in a browser: retry and cancel, live updates, relative times, notifications."""

import re

from playwright.async_api import Browser, Page, expect

from browser.served_site import Site
from org_env import AgentClient, Body, make_step


async def make_stalled_plan(site: Site) -> Body:
    world = site.world
    steps = [make_step(title=f"Look up {n}") for n in "ab"]
    plan = await world.agent.plan(steps, name="Rivers of the north")
    await world.agent.take(plan)
    world.clock.advance(minutes=40)
    await world.agent.status(plan)
    return plan


async def make_failed_run(agent: AgentClient) -> Body:
    run = await agent.run(name="Deep rivers")
    job = await agent.job(run)
    await agent.fail_job(job, "The source is gone.")
    return run


async def test_user_without_javascript_retries_and_cancels_a_run_on_overview(
    browser: Browser, site: Site
) -> None:
    run = await make_failed_run(site.world.agent)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(site.address)
    trouble, running = page.locator("#trouble"), page.locator("#running")
    await expect(trouble).to_contain_text("The source is gone.")
    await trouble.get_by_role("button", name="Retry failed jobs of Deep rivers").click()
    await expect(page.get_by_role("status").last).to_contain_text("can be claimed again")
    await expect(running).to_contain_text("Deep rivers")
    assert (await site.world.agent.job(run))["attempt"] == 2
    await running.get_by_label("More actions for Deep rivers").click()
    await running.get_by_role("link", name="Cancel run: Deep rivers").click()
    await expect(page.get_by_role("heading", name="Cancel this run?")).to_be_visible()
    await page.get_by_label("Reason").fill("The question was answered elsewhere.")
    await page.get_by_role("button", name="Cancel run").click()
    finished = page.locator("#finished")
    await expect(finished).to_contain_text("Canceled by pat: The question was answered elsewhere.")
    await context.close()


async def test_overview_page_shows_newly_failed_run_without_reload(page: Page, site: Site) -> None:
    await site.world.agent.plan(1, name="Lakes")
    await page.goto(site.address)
    await expect(page.locator("#live")).to_have_text("live")
    await make_failed_run(site.world.agent)
    await expect(page.locator("#trouble")).to_contain_text("Deep rivers")


async def test_relative_times_advance_and_show_local_time_on_hover(
    browser: Browser, site: Site
) -> None:
    await make_stalled_plan(site)
    context = await browser.new_context(timezone_id="Asia/Tokyo", locale="en-US")
    page = await context.new_page()
    site.watch(page)
    await page.clock.install()
    await page.goto(site.address)
    age = page.locator("#trouble time").first
    await expect(age).to_have_text("just now")
    await page.clock.run_for(5 * 60_000)
    await expect(age).to_have_text("5 min ago")
    await page.clock.fast_forward(49 * 3_600_000)
    await expect(age).to_have_text("2 days ago")
    assert (await age.get_attribute("title") or "").endswith("UTC")
    await age.hover()
    title = await age.get_attribute("title") or ""
    assert re.fullmatch(r"Jan 1, 2030, 9:40\sPM \(2030-01-01 12:40:00 UTC\)", title), title
    await context.close()
    assert site.faults == []


async def test_moments_are_in_the_local_zone_with_utc_on_hover(
    browser: Browser, site: Site
) -> None:
    await make_stalled_plan(site)
    for scripts, shown in ((True, r"9:\d\d\sPM"), (False, r"12:\d\d")):
        context = await browser.new_context(
            timezone_id="Asia/Tokyo", locale="en-US", java_script_enabled=scripts
        )
        page = await context.new_page()
        await page.goto(f"{site.address}/agents/ann")
        time = page.locator(".activity time").first
        await expect(time).to_have_text(re.compile(f"^{shown}$"))
        await expect(time).to_have_attribute("title", re.compile(r"^2030-01-01 12:\d\d UTC$"))
        await context.close()
    assert site.faults == []


async def test_tab_title_and_notification_show_number_of_inbox_items(
    browser: Browser, site: Site
) -> None:
    agent = site.world.agent
    context = await browser.new_context(permissions=["notifications"])
    page = await context.new_page()
    site.watch(page)
    # Record notifications, and let the test decide whether the tab counts as hidden.
    await page.add_init_script(
        """self.sent = [];
        const real = self.Notification;
        self.Notification = class { constructor(name, { body }) { sent.push(body); } };
        Notification.permission = "granted";
        Notification.requestPermission = async () => (self.asked = 1, "granted");
        Object.defineProperty(document, "hidden", { get: () => !!self.away });"""
    )
    plans = [await agent.plan(1, name=f"Plan {n}") for n in range(3)]
    await page.goto(site.address)
    await expect(page).to_have_title("Waybook")
    await expect(page.locator("#live")).to_have_text("live")
    await _ask(agent, plans[0])
    await expect(page).to_have_title("(1) Waybook")
    assert await page.evaluate("[self.asked, sent]") == [None, []]
    await page.get_by_role("button", name="Notify me in this browser").click()
    await expect(page.get_by_role("button", name="Stop notifications")).to_be_visible()
    await page.evaluate("self.away = true")
    await _ask(agent, plans[1])
    await expect(page).to_have_title("(2) Waybook", timeout=20_000)
    assert await page.evaluate("[self.asked, sent]") == [1, ["2 items need you."]]
    await page.evaluate("self.away = false")
    await page.get_by_role("button", name="Stop notifications").click()
    await page.evaluate("self.away = true")
    await _ask(agent, plans[2])
    await expect(page).to_have_title("(3) Waybook", timeout=20_000)
    assert await page.evaluate("sent.length") == 1
    await context.close()
    assert site.faults == []


async def _ask(agent: AgentClient, plan: Body) -> None:
    taken = await agent.take(plan)
    await agent.review(taken)
