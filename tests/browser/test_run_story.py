"""A run in a browser: a user follows it, gives feedback, and reads its documents."""

import re

from playwright.async_api import Browser, Page, expect

from browser.axe import accessible
from browser.served_site import Site
from full_ids import full_id
from org_env import AgentClient, Body
from waybook.background import render_all_orgs


async def make_waiting_run(agent: AgentClient) -> Body:
    """Create a run that awaits feedback, with documents to read."""
    run = await agent.run("dialectic", ["opus", "sonnet"], name="Rivers of the north")
    await agent.work_off(run)
    while await render_all_orgs(agent.dispatcher.services):
        pass
    return run


async def test_feedback_on_run_page_starts_next_stage(page: Page, site: Site) -> None:
    run = await make_waiting_run(site.world.agent)
    await page.goto(f"{site.address}/runs")
    await page.get_by_role("link", name="Rivers of the north").click()
    await expect(page.locator("#standing")).to_contain_text("1 of 5 stages")
    await page.get_by_label("Feedback").fill("Look at the lakes as well.")
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(page.get_by_text("gave feedback", exact=False).first).to_be_visible()
    await page.goto(f"{site.address}/runs/{run['runId']}")
    await expect(page.locator("#stage-2")).to_contain_text("in progress")
    await page.get_by_role("link", name="All documents").click()
    await page.locator("#documents tbody a").first.click()
    await expect(page.get_by_role("heading", name="Found")).to_be_visible()


async def test_feedback_and_regeneration_on_run_page_work_without_javascript(
    browser: Browser, site: Site
) -> None:
    run = await make_waiting_run(site.world.agent)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(f"{site.address}/runs/{run['runId']}")
    await page.get_by_label("Feedback").fill("Look at the lakes as well.")
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(page).to_have_url(re.compile(f"/runs/{full_id(run['runId'])}$"))
    await expect(page.locator("#stage-2")).to_contain_text("in progress")
    await page.get_by_role("link", name="All documents").click()
    await page.get_by_role("button", name="Regenerate", exact=False).first.click()
    await expect(page.get_by_role("status").last).to_contain_text("Regeneration queued")
    await context.close()


async def test_run_pages_are_accessible_and_fit_narrow_window(page: Page, site: Site) -> None:
    agent = site.world.agent
    run = await make_waiting_run(agent)
    failing = await agent.run()
    job = await agent.job(failing)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    await agent.call("fail_job", **held, error="The source is gone.", retryable=False)
    plan = await agent.plan(2)
    await agent.work_through(plan)
    named = {"mediaType": "text/markdown", "title": "Answer", "content": "# The Nile"}
    await agent.call("store_research_output", planId=plan["planId"], **named)
    await page.goto(f"{site.address}/runs/{failing['runId']}")
    await accessible(page)
    for path in (
        "/runs",
        f"/runs/{run['runId']}",
        f"/runs/{failing['runId']}",
        "/dags",
        "/dags/dialectic",
        "/outputs",
        f"/plans/{plan['planId']}/outputs",
        "/audit",
        "/calls",
        "/health",
    ):
        await page.goto(site.address + path)
        await page.set_viewport_size({"width": 390, "height": 800})
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{path} is wider than the window"
        await page.set_viewport_size({"width": 1280, "height": 900})
