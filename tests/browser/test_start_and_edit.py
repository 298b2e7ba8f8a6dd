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


async def test_condition_form_with_errors_is_accessible(page: Page, site: Site) -> None:
    plan = await make_plan(site)
    await page.goto(f"{site.address}/plans/{plan['planId']}/steps/{plan['stepIds'][1]}")
    await page.get_by_text("Add a condition", exact=True).click()
    await page.get_by_role("button", name="Add condition").click()
    await expect(page.get_by_text("Enter a field such as")).to_be_visible()
    await accessible(page)
    await take_picture(page, "condition-form-light", "light")
    expect_one_refusal(site)
