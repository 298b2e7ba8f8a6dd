"""Pages of a run in a browser: errors, feedback, and runs with many steps or models."""

import re

from playwright.async_api import Browser, Page, expect

from browser.axe import accessible
from browser.pictures import take_picture
from browser.sample_runs import make_busy_run, make_large_run
from browser.served_site import Site
from org_env import AgentClient, Body
from run_documents import render_all

#: Maximum height in pixels of the page of a run with four models in its third stage.
MAX_HEIGHT = 3_000
WIDTHS = (1440, 1024, 390)
#: Height in pixels of the bar at the bottom of a phone, which covers the page.
BOTTOM_BAR = 56


async def pictures(page: Page, name: str) -> None:
    """Save screenshots in each width and theme; check that the page fits into the window."""
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{name} is wider than a window of {width} px"
        for theme in ("light", "dark"):
            await take_picture(page, f"{name}-{width}-{theme}", theme)
    await page.set_viewport_size({"width": 1280, "height": 900})


async def test_run_page_of_four_models_shows_sessions_and_cost(page: Page, site: Site) -> None:
    run = await make_busy_run(site.world)
    await page.goto(f"{site.address}/runs/{run['runId']}")
    side = page.locator(".rest")
    await expect(side).to_contain_text("worker-eu-1")
    await expect(side).to_contain_text("$")
    await pictures(page, "run-busy")
    assert await page.evaluate("document.documentElement.scrollHeight") <= MAX_HEIGHT
    await expect(page.locator(".stages [aria-current]")).to_have_attribute("id", "stage-3")
    await accessible(page)
    views = {"jobs": "/jobs", "documents": "/documents", "map": "?view=map"}
    views |= {"history": "?view=history", "cost": "?by=cost", "time": "?by=time"}
    for name, path in views.items():
        await page.goto(f"{site.address}/runs/{run['runId']}{path}")
        await accessible(page)
        await pictures(page, f"run-{name}")


async def test_run_page_of_500_steps_is_readable_and_paginated(page: Page, site: Site) -> None:
    run = await make_large_run(site.world.agent)
    await page.goto(f"{site.address}/runs/{run['runId']}?view=map")
    sizes = await page.locator("#map text").evaluate_all(
        "all => all.map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 11, "text in the map is readable"
    await page.get_by_role("link", name="Grid").click()
    await pictures(page, "run-large")
    await expect(page.locator("#step-grid tbody tr").first).to_contain_text("chapter")
    await page.get_by_role("searchbox", name="Filter steps by name").fill("chapter 499")
    await page.keyboard.press("Enter")
    await expect(page.locator("#step-grid tbody tr")).to_have_count(1)
    await page.go_back()
    await page.get_by_role("link", name="All 500 steps").click()
    await expect(page.locator("#step-grid tbody tr")).to_have_count(60)
    await page.get_by_role("link", name="Next").click()
    await expect(
        page.get_by_role("link", name="Translate chapter 060 of the manual")
    ).to_be_visible()


async def test_user_reads_the_error_of_a_step_and_retries(page: Page, site: Site) -> None:
    agent = site.world.agent
    run = await make_busy_run(site.world)
    failed = run["failed"]
    await page.goto(f"{site.address}/runs/{run['runId']}?view=map")
    box = page.locator(f"#map [data-step='{failed['stepKey']}']")
    await box.click()
    await expect(page.get_by_role("heading", name="Failed", exact=True)).to_be_visible()
    await expect(page.locator(".note")).to_contain_text("exceeds its limit")
    await pictures(page, "run-step-failed")
    await page.locator(".note").get_by_role("link").first.click()
    await expect(page).to_have_url(f"{site.address}/runs/{run['runId']}/jobs/{failed['jobId']}")
    await expect(page.locator("#prompt-text")).to_contain_text("characters")
    await accessible(page)
    await pictures(page, "run-job-failed")
    await page.get_by_role("button", name="Retry failed jobs of this step").click()
    await expect(page.locator("main").get_by_role("status")).to_contain_text("can be claimed again")
    again = await agent.call("get_next_job", runId=run["runId"], modelId=failed["modelId"])
    assert (again["jobId"], again["attempt"]) == (failed["jobId"], failed["attempt"] + 1)


async def make_waiting_run(agent: AgentClient) -> Body:
    """Create a run that awaits feedback on a stage with documents."""
    run = await agent.run("dialectic", ["opus", "sonnet"], name="Rivers of the north")
    await agent.work_off(run)
    await render_all(agent)
    return run


async def test_feedback_and_regeneration_on_run_page_work_without_javascript(
    browser: Browser, site: Site
) -> None:
    run = await make_waiting_run(site.world.agent)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{site.address}/runs/{run['runId']}")
    await page.get_by_label("Feedback").fill("Look at the lakes as well.")
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(page).to_have_url(re.compile(f"/runs/{run['runId']}$"))
    mark = page.locator("#stage-2 [role=img]")
    await expect(mark).to_have_attribute("data-status", "in_progress")
    await page.get_by_role("link", name="Documents").first.click()
    await page.get_by_role("button", name="Regenerate", exact=False).first.click()
    await expect(page.get_by_role("status").last).to_contain_text("Regeneration queued")
    await context.close()


async def test_first_screen_of_failed_run_shows_reason_and_retry(page: Page, site: Site) -> None:
    run = await make_busy_run(site.world)
    await page.goto(f"{site.address}/runs/{run['runId']}")
    for width, height in ((1440, 900), (390, 844)):
        await page.set_viewport_size({"width": width, "height": height})
        assert await page.evaluate("scrollY") == 0
        for part in (page.get_by_text("exceeds its limit"), page.get_by_text("Attempt 1, ann")):
            await expect(part.first).to_be_in_viewport(ratio=1)
        button = page.get_by_role("button", name="Retry job")
        await expect(button).to_be_in_viewport(ratio=1)
        place = await button.bounding_box()
        assert place is not None
        assert place["y"] + place["height"] <= height - BOTTOM_BAR


async def test_first_screen_of_waiting_run_shows_the_feedback_form(page: Page, site: Site) -> None:
    run = await make_waiting_run(site.world.agent)
    await page.goto(f"{site.address}/runs/{run['runId']}")
    for width, height in ((1440, 900), (390, 844)):
        await page.set_viewport_size({"width": width, "height": height})
        await expect(page.get_by_label("Feedback")).to_be_in_viewport(ratio=1)


async def test_retry_on_the_run_page_works_without_javascript(browser: Browser, site: Site) -> None:
    run = await make_busy_run(site.world)
    failed = run["failed"]
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{site.address}/runs/{run['runId']}")
    await page.get_by_role("button", name="Retry job").click()
    await expect(page.get_by_role("status").last).to_contain_text("can be claimed again")
    again = await site.world.agent.call(
        "get_next_job", runId=run["runId"], modelId=failed["modelId"]
    )
    assert again["jobId"] == failed["jobId"]
    await context.close()


async def test_job_opens_in_a_panel_and_returns_the_focus(page: Page, site: Site) -> None:
    run = await make_busy_run(site.world)
    address = f"{site.address}/runs/{run['runId']}"
    await page.goto(address)
    await expect(page.locator("#live")).to_have_text("live")
    cell = page.locator("#step-grid a.cell[data-s=done]").first
    href = await cell.get_attribute("href")
    panel = page.get_by_role("complementary", name="Job")
    await cell.click()
    await expect(panel.get_by_role("heading", level=1)).to_be_focused()
    await expect(panel.get_by_role("link", name="Open page")).to_have_attribute("href", href or "")
    await expect(page).to_have_url(address)
    await pictures(page, "run-panel")
    await accessible(page)
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await expect(cell).to_be_focused()


async def test_open_job_panel_follows_the_job_live(page: Page, site: Site) -> None:
    agent = site.world.agent
    run = await agent.run("dialectic", ["opus"], name="Rivers of the north")
    job = await agent.job(run)
    await page.goto(f"{site.address}/runs/{run['runId']}")
    await expect(page.locator("#live")).to_have_text("live")
    await page.locator("#step-grid a.cell").first.click()
    badge = page.locator("#panel .title [data-status]")
    await expect(badge).to_have_attribute("data-status", "in_progress")
    await agent.submit_documents(job)
    await expect(badge).to_have_attribute("data-status", "completed")
    await expect(page.locator("#run-head")).to_contain_text("1 of")
