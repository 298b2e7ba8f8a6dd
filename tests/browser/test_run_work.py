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
    top = page.locator(".facts")
    await expect(top).to_contain_text("worker-eu-1")
    await expect(top).to_contain_text("$")
    await pictures(page, "run-busy")
    assert await page.evaluate("document.documentElement.scrollHeight") <= MAX_HEIGHT
    stages = page.locator("details.stage")
    opened = await stages.evaluate_all("all => all.map(item => item.open)")
    assert opened == [False, False, True]
    await accessible(page)
    for path in ("jobs", "documents"):
        await page.goto(f"{site.address}/runs/{run['runId']}/{path}")
        await accessible(page)
        await pictures(page, f"run-{path}")


async def test_run_page_of_500_steps_is_readable_and_paginated(page: Page, site: Site) -> None:
    run = await make_large_run(site.world.agent)
    await page.goto(f"{site.address}/runs/{run['runId']}")
    sizes = await page.locator("#map text").evaluate_all(
        "all => all.map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 11, "text in the map is readable"
    await pictures(page, "run-large")
    await page.get_by_role("link", name="All 500 steps").click()
    await expect(page.locator("tbody tr")).to_have_count(60)
    await page.get_by_role("link", name="Next").click()
    await expect(
        page.get_by_role("link", name="Translate chapter 060 of the manual")
    ).to_be_visible()


async def test_user_reads_the_error_of_a_step_and_retries(page: Page, site: Site) -> None:
    agent = site.world.agent
    run = await make_busy_run(site.world)
    failed = run["failed"]
    await page.goto(f"{site.address}/runs/{run['runId']}")
    box = page.locator(f"#map [data-step='{failed['stepKey']}'][data-status=failed]")
    await box.click()
    await expect(page.get_by_role("heading", name="Failed", exact=True)).to_be_visible()
    await expect(page.locator(".error")).to_contain_text("exceeds its limit")
    await pictures(page, "run-step-failed")
    await page.locator(".error").get_by_role("link").first.click()
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
    await expect(page.locator("#stage-2")).to_contain_text("in progress")
    await page.get_by_role("link", name="All documents").click()
    await page.get_by_role("button", name="Regenerate", exact=False).first.click()
    await expect(page.get_by_role("status").last).to_contain_text("Regeneration queued")
    await context.close()
