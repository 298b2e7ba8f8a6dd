"""A run in a browser: find out why a step failed, and fit large runs on a page."""

import gzip

from playwright.async_api import Browser, Page, expect

from browser.axe import accessible
from browser.pictures import take_picture
from browser.sample_runs import make_busy_run, make_large_run
from browser.served_site import Site
from full_ids import full_id
from org_env import Body
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage

#: Maximum height in pixels of the page of a run with four models in its third stage.
MAX_HEIGHT = 3_000
#: Limits of the page of a run with 500 steps: compressed bytes, and DOM nodes.
MAX_BYTES = 60_000
MAX_NODES = 3_000
WIDTHS = (1440, 1024, 390)


async def pictures(page: Page, name: str) -> None:
    """Take a screenshot at every width and in both themes, and check that the page fits."""
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide, f"{name} is wider than a window of {width} px"
        for theme in ("light", "dark"):
            await take_picture(page, f"{name}-{width}-{theme}", theme)
    await page.set_viewport_size({"width": 1280, "height": 900})


async def test_run_page_of_four_models_shows_workers_and_cost(page: Page, site: Site) -> None:
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


async def test_run_page_of_500_steps_stays_within_size_limits(page: Page, site: Site) -> None:
    run = await make_large_run(site.world.agent)
    reply = await page.goto(f"{site.address}/runs/{run['runId']}")
    assert reply is not None
    assert len(gzip.compress(await reply.body())) <= MAX_BYTES
    assert await page.locator("*").count() <= MAX_NODES
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
    await expect(page).to_have_url(
        f"{site.address}/runs/{full_id(run['runId'])}/jobs/{full_id(failed['jobId'])}"
    )
    await expect(page.locator("#prompt-text")).to_contain_text("characters")
    await accessible(page)
    await pictures(page, "run-job-failed")
    await page.get_by_role("button", name="Retry failed jobs of this step").click()
    await expect(page.locator("main").get_by_role("status")).to_contain_text("can be claimed again")
    again = await agent.call("get_next_job", runId=run["runId"], modelId=failed["modelId"])
    assert (again["jobId"], again["attempt"]) == (failed["jobId"], failed["attempt"] + 1)


async def make_two_versions(site: Site) -> Body:
    """Create a run with two versions of a document of one model, and one of another model."""
    agent = site.world.agent
    stage = make_stage("work", make_recipe_step("case"))
    await agent.call("add_dag", definition=make_definition("cases", stage))
    run = await agent.run("cases", ["opus", "gpt"], name="Which region first?")
    for model, text in (("opus", "Start in the north."), ("gpt", "Start in the south.")):
        job = await agent.job(run, modelId=model)
        done = await agent.submit_documents(job, f"# Case\n\n{text}\n\nIt is cheaper.")
        if model == "opus":
            await agent.call("regenerate_document", documentId=done["documentIds"][0])
            better = "# Case\n\nStart in the west.\n\nIt is cheaper."
            await agent.submit_documents(await agent.job(run, modelId=model), better)
    await render_all(agent)
    return run


async def compare_versions_and_models(page: Page, site: Site, run: Body) -> None:
    """Open a document; compare it with its other version and with another model's document."""
    await page.goto(f"{site.address}/runs/{run['runId']}")
    await page.get_by_role("link", name="case of opus").click()
    await expect(page.get_by_role("heading", name="Case", exact=True)).to_be_visible()
    await page.get_by_label("Compare with").select_option(label="case, opus, version 1")
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator(".diff del")).to_have_text(["Removed: Start in the north."])
    await expect(page.locator(".diff ins")).to_have_text(["Added: Start in the west."])
    await page.get_by_label("Compare with").select_option(label="case, gpt, version 1")
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator(".diff del")).to_have_text(["Removed: Start in the south."])
    await expect(page.locator(".sides .prose")).to_have_count(2)


async def test_user_compares_versions_and_models_of_a_document(page: Page, site: Site) -> None:
    run = await make_two_versions(site)
    await compare_versions_and_models(page, site, run)
    await accessible(page)
    await pictures(page, "run-compare")
    await page.get_by_role("link", name="Show one document").click()
    await pictures(page, "run-document")


async def test_run_pages_work_without_javascript(browser: Browser, site: Site) -> None:
    run, busy = await make_two_versions(site), await make_busy_run(site.world)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await compare_versions_and_models(page, site, run)
    await page.goto(f"{site.address}/runs/{busy['runId']}")
    await page.locator("#map").get_by_role("link", name="Proposal").click()
    await expect(page.locator("#map [data-step=thesis_build_stage_header]")).to_be_visible()
    await page.locator("#stage-3").get_by_role("link", name=busy["failed"]["stepKey"]).click()
    await page.get_by_role("button", name="Retry failed jobs of this step").click()
    await expect(page.locator("main").get_by_role("status")).to_contain_text("can be claimed again")
    await context.close()
