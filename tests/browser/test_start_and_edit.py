"""Start runs, create plans and reorder steps in a browser, with and without JavaScript."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser.axe import accessible
from browser.pictures import take_picture
from browser.served_site import Site
from org_env import Body, make_step


@pytest_asyncio.fixture(loop_scope="session", params=[True, False], ids=["script", "no-script"])
async def tab(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Page:
    """Return a browser tab on a small screen, with or without JavaScript."""
    context = await browser.new_context(
        java_script_enabled=request.param, viewport={"width": 390, "height": 800}
    )
    page = await context.new_page()
    site.watch(page)
    return page


async def make_plan(site: Site) -> Body:
    steps = [make_step(title=name) for name in ("Read", "Measure", "Weigh", "Write")]
    return await site.world.agent.plan(steps)


async def titles(site: Site, plan: Body) -> list[str]:
    return [step["title"] for step in (await site.world.agent.status(plan))["pendingSteps"]]


def expect_one_refusal(site: Site) -> None:
    """Check that the browser reported the status 400 of one refused form, and nothing else."""
    (fault,) = site.faults
    assert "400" in fault
    site.faults.clear()


async def test_user_starts_a_run_from_the_workflow_page(tab: Page, site: Site) -> None:
    await site.world.agent.run(models=["opus", "gpt"])
    await tab.goto(f"{site.address}/dags/deep-research")
    await tab.get_by_role("link", name="Start run").click()
    await tab.get_by_label("Name").fill("Rivers of Asia")
    await tab.get_by_label("opus").check()
    await tab.get_by_label("Other models").fill("gemini")
    await tab.get_by_label("Question").fill("Which river is longest?")
    await tab.get_by_role("button", name="Continue").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Start this run?")
    await expect(tab.get_by_text("No forecast: no completed runs")).to_be_visible()
    await take_picture(tab, "start-run-confirmation-light", "light")
    await tab.get_by_role("button", name="Edit").click()
    await expect(tab.get_by_label("Question")).to_have_value("Which river is longest?")
    await expect(tab.get_by_label("Other models")).to_have_value("gemini")
    await tab.get_by_role("button", name="Continue").click()
    await tab.get_by_role("button", name="Start run").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Rivers of Asia")
    run_id = tab.url.rpartition("/")[2]
    report = await site.world.agent.progress({"runId": run_id})
    assert report["status"] == "in_progress"
    assert site.faults == []
    await tab.context.close()


async def test_user_creates_a_plan_from_a_template(tab: Page, site: Site) -> None:
    await site.world.agent.plan(1)
    await tab.goto(f"{site.address}/plans")
    await tab.get_by_role("link", name="New plan").click()
    await tab.get_by_role("link", name="code-change").click()
    await tab.locator("[name='parameter:change']").fill("Sort rivers by length")
    await tab.locator("[name='parameter:repository']").fill("atlas")
    await tab.get_by_role("button", name="Preview").click()
    await expect(tab.get_by_role("heading", level=2)).to_have_text("Sort rivers by length")
    await take_picture(tab, "new-plan-preview-dark", "dark")
    await tab.get_by_role("button", name="Create plan").click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Sort rivers by length")
    await expect(tab.locator("#s1")).to_contain_text("Read the code concerned")
    assert site.faults == []
    await tab.context.close()


async def test_user_reorders_steps_by_keyboard(tab: Page, site: Site) -> None:
    plan = await make_plan(site)
    await tab.goto(f"{site.address}/plans/{plan['planId']}/edit")
    await tab.get_by_role("button", name="Move up: Write").focus()
    for place in (3, 2):
        await tab.keyboard.press("Enter")
        await expect(tab).to_have_url(re.compile(rf"moved={place}&"))
        # The button of the moved step has the focus again, so that Enter moves the step on.
        await expect(tab.get_by_role("button", name="Move up: Write")).to_be_focused()
    assert await titles(site, plan) == ["Read", "Write", "Measure", "Weigh"]
    assert site.faults == []
    await tab.context.close()


async def test_user_reorders_steps_by_drag(page: Page, site: Site) -> None:
    plan = await make_plan(site)
    await page.goto(f"{site.address}/plans/{plan['planId']}/edit")
    rows = page.locator("[data-step]")
    await rows.nth(3).drag_to(rows.nth(0), target_position={"x": 60, "y": 2})
    await expect(rows.first).to_contain_text("Write")
    await expect(page.get_by_text("Revision 2")).to_be_visible()
    assert await titles(site, plan) == ["Write", "Read", "Measure", "Weigh"]


async def test_user_edits_a_step_and_copies_the_plan(tab: Page, site: Site) -> None:
    plan = await make_plan(site)
    await site.world.agent.submit(await site.world.agent.take(plan))
    await tab.goto(f"{site.address}/plans/{plan['planId']}/edit")
    await tab.get_by_role("link", name="Weigh").click()
    await tab.get_by_text("Edit title", exact=True).first.click()
    await tab.get_by_label("Title").fill("Weigh all")
    await tab.get_by_role("button", name="Edit title").click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Weigh all")
    await tab.get_by_text("Edit dependencies", exact=True).first.click()
    await tab.get_by_label("Depends on steps").fill("1, 2")
    await tab.get_by_role("button", name="Edit dependencies").click()
    await expect(tab.get_by_text("Depends on", exact=False).first).to_contain_text("Read")
    await tab.goto(f"{site.address}/plans/{plan['planId']}/copy?from=2")
    await tab.get_by_label("Name").fill("Rivers again")
    await tab.get_by_role("button", name="Create copy").click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Rivers again")
    await expect(tab.locator("#plan-status")).to_contain_text("1 of 4 done")
    assert site.faults == []
    await tab.context.close()


async def test_user_adds_and_corrects_a_condition_with_the_form(tab: Page, site: Site) -> None:
    plan = await make_plan(site)
    await tab.goto(f"{site.address}/plans/{plan['planId']}/edit")
    await tab.get_by_role("link", name="Measure").click()
    await tab.get_by_text("Add a condition", exact=True).click()
    form = tab.locator("#condition-new")
    await form.get_by_label("If the field").fill("result.count")
    await form.get_by_label("Operator").select_option(label="is less than")
    await form.get_by_label("Value").fill("3")
    await form.get_by_label("Then").select_option(label="skip to a later step")
    await form.get_by_label("Step number").fill("1")
    await form.get_by_role("button", name="Add condition").click()
    await expect(form.get_by_text("Enter the number of a later step: 3 to 4.")).to_be_visible()
    await expect(form.get_by_label("If the field")).to_have_value("result.count")
    await expect(form.get_by_label("Operator")).to_have_value("<")
    await form.get_by_label("Step number").fill("4")
    await form.get_by_role("button", name="Add condition").click()
    saved = tab.get_by_text("If result.count is less than 3: skip to a later step")
    await expect(saved).to_be_visible()
    await expect(tab.locator("#conditions + table")).to_contain_text("result.count < 3")
    await saved.click()
    await tab.locator("#condition-0").get_by_role("button", name="Remove condition").click()
    await expect(saved).to_have_count(0)
    expect_one_refusal(site)
    await tab.context.close()


async def test_condition_form_with_errors_is_accessible(page: Page, site: Site) -> None:
    plan = await make_plan(site)
    await page.goto(f"{site.address}/plans/{plan['planId']}/steps/{plan['stepIds'][1]}")
    await page.get_by_text("Add a condition", exact=True).click()
    await page.get_by_role("button", name="Add condition").click()
    await expect(page.get_by_text("Enter a field such as")).to_be_visible()
    await accessible(page)
    await take_picture(page, "condition-form-light", "light")
    expect_one_refusal(site)
