"""Pages of a plan and its steps in a browser: time slider, and forms for changes."""

import re

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser.axe import accessible
from browser.pictures import take_picture
from browser.served_site import Site
from org_env import Body, make_step


async def make_busy_plan(site: Site) -> Body:
    """Create a plan with all states and events that its page can show, except a review."""
    agent, clock = site.world.agent, site.world.clock
    steps = [make_step(f"Look at river {n}.", title=f"River {n}") for n in range(1, 60)]
    plan = await agent.plan(steps, name="Rivers of the north", budget={"tokens": 1000})
    first = await agent.take(plan, sessionId="day")
    clock.advance(minutes=4)
    await agent.submit(first, {"river": "Nile"}, usage={"inputTokens": 900})
    source = {"title": "An atlas", "url": "https://example.org/atlas"}
    research = {"kind": "note", "title": "On rivers", "content": "They flow.", "sources": [source]}
    await agent.call("store_research", planId=plan["planId"], stepId=first["stepId"], **research)
    clock.advance(hours=8)
    second = await agent.take(plan, sessionId="night")
    clock.advance(minutes=2)
    await agent.modify(plan, "fail_step", stepId=second["stepId"], reason="no water")
    for _ in range(40):
        await agent.submit(await agent.take(plan))
    await agent.take(plan, sessionId="dawn")
    clock.advance(minutes=45)
    return plan


async def test_stalled_step_can_be_retried_on_plan_page(page: Page, site: Site) -> None:
    plan = await make_busy_plan(site)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    assert len([url for url in requests if not url.startswith("data:")]) <= 8
    await expect(page.get_by_text("41 of 59 done")).to_be_visible()
    await expect(page.get_by_role("region", name="Map of the plan")).to_be_visible()
    # The page must have scrolled the map to the current step.
    box = page.locator(f'#map [data-step="{plan["stepIds"][42]}"]')
    seen, drawn = await page.locator("#map").bounding_box(), await box.bounding_box()
    assert seen
    assert drawn
    assert seen["y"] < drawn["y"] < seen["y"] + seen["height"]
    await expect(page.locator(".steps .line rect")).to_have_count(43)
    await accessible(page)
    await page.locator("#plan-trouble").get_by_role("link", name="River 43").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("River 43")
    await page.locator("#do-retry_step summary").click()
    await page.locator("#do-retry_step").get_by_label("Reason").fill("its agent is gone")
    await accessible(page)
    await page.get_by_role("button", name="Reassign", exact=True).click()
    await expect(page.locator("#step header")).to_contain_text("Ready")
    await expect(page.get_by_text("attempt 2")).to_be_visible()
    await expect(page.get_by_text("its agent is gone")).to_be_visible()
    taken = await site.world.agent.take(plan)
    assert (taken["stepOrder"], taken["attempt"]) == (43, 2)


LONG_NAME = "Nightly check of every invoice of the last twelve months against the ledger. " * 2
REASON = "The archive answered with 503: it is closed until Monday morning"


async def make_failing_plan(site: Site) -> Body:
    """Create a plan with a long name, of which the second step failed."""
    agent = site.world.agent
    steps = [make_step(title=f"{name}: {LONG_NAME}"[:180]) for name in ("Read", "Weigh", "Write")]
    plan = await agent.plan(steps, name=LONG_NAME)
    await agent.submit(await agent.take(plan, sessionId="night"))
    taken = await agent.take(plan, sessionId="night")
    await agent.modify(plan, "fail_step", stepId=taken["stepId"], reason=REASON)
    return plan


@pytest.mark.parametrize(("width", "height", "covered"), [(1440, 900, 0), (390, 844, 64)])
async def test_first_screen_of_failed_step_shows_reason_and_retry(
    page: Page, site: Site, width: int, height: int, covered: int
) -> None:
    plan = await make_failing_plan(site)
    await page.set_viewport_size({"width": width, "height": height})
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    band = page.locator("#plan-trouble")
    for shown in (
        band.get_by_text(REASON),
        band.get_by_text("attempt 1, last held by night"),
        band.get_by_role("button", name="Retry step 2"),
    ):
        box = await shown.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height - covered
    await take_picture(page, f"plan-failed-{width}-light", "light")


async def test_steps_of_large_plan_fold_when_finished(page: Page, site: Site) -> None:
    agent = site.world.agent
    plan = await agent.plan([make_step(title=f"River {n}") for n in range(1, 61)])
    for _ in range(25):
        await agent.submit(await agent.take(plan))
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    await expect(page.get_by_text("Steps 1 to 20, done")).to_be_visible()
    await expect(page.locator("#s20")).to_be_hidden()
    await expect(page.locator("#s21")).to_be_visible()
    await expect(page.get_by_text("Steps 21 to 40, 5 done")).to_be_visible()
    await page.get_by_text("Steps 1 to 20, done").click()
    await expect(page.locator("#s20")).to_be_visible()
    await page.get_by_label("Number of a step").fill("45")
    await page.get_by_label("Number of a step").press("Enter")
    await expect(page.locator("#s45")).to_be_in_viewport()
    await page.locator("#step-tabs a[href*='state=completed']").click()
    await expect(page.locator(".steps li")).to_have_count(25)


async def test_step_opens_in_a_panel_and_closes_with_escape(page: Page, site: Site) -> None:
    plan = await make_failing_plan(site)
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    await page.locator("#s2 a").click()
    panel = page.get_by_role("complementary", name="Step", exact=True)
    await expect(panel.get_by_text(REASON).first).to_be_visible()
    await expect(page.locator("#s3")).to_be_visible()
    assert page.url.endswith(plan["planId"])
    await accessible(page)
    await panel.get_by_role("button", name="Retry step 2").click()
    await expect(page.get_by_text("Agents can claim the step again.")).to_be_visible()
    await page.locator("#s1 a").click()
    await expect(panel.get_by_role("heading", name="Result")).to_be_visible()
    taken = await site.world.agent.take(plan)
    await expect(page.locator("#s2")).to_contain_text("attempt 2")
    await expect(panel.get_by_role("heading", name="Result")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    assert taken["attempt"] == 2


# Tests of the time slider.


async def make_worked_plan(site: Site) -> Body:
    """Create a plan with two completed steps, one hour apart."""
    agent, clock = site.world.agent, site.world.clock
    steps = [make_step(f"Look at river {n}.", title=f"River {n}") for n in range(1, 6)]
    plan = await agent.plan(steps, name="Rivers of the north")
    for _ in range(2):
        taken = await agent.take(plan, sessionId="day")
        clock.advance(hours=1)
        await agent.submit(taken)
    return plan


async def test_time_slider_moved_by_keyboard_shows_earlier_states_of_plan(
    page: Page, site: Site
) -> None:
    plan = await make_worked_plan(site)
    await page.goto(f"{site.address}/plans/{plan['planId']}")
    await page.get_by_role("link", name="Time slider").click()
    await expect(page.get_by_text("2 of 5 done")).to_be_visible()
    await accessible(page)
    slider = page.get_by_role("slider", name="Entry")
    await slider.focus()
    await slider.press("Home")
    await expect(page.get_by_text("0 of 5 done")).to_be_visible()
    await expect(page.locator("#then").get_by_text("Ready").first).to_be_visible()
    await slider.press("End")
    await slider.press("ArrowLeft")
    await expect(page.get_by_text("1 of 5 done")).to_be_visible()
    await expect(page.locator('#map [data-status="in_progress"]').first).to_be_visible()
    for theme in ("light", "dark"):
        await take_picture(page, f"time-slider-{theme}", theme)


# Tests of forms for changes, with and without JavaScript.


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


async def test_user_retries_failed_step_on_a_phone(tab: Page, site: Site) -> None:
    plan = await make_failing_plan(site)
    await tab.goto(f"{site.address}/plans/{plan['planId']}")
    await tab.get_by_role("button", name="Retry step 2").click()
    await expect(tab.get_by_text("Agents can claim the step again.")).to_be_visible()
    await tab.locator("#s2 a").click()
    await expect(tab.get_by_role("heading", name=re.compile("^Weigh"))).to_be_visible()
    assert await tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert (await site.world.agent.take(plan))["attempt"] == 2
    assert site.faults == []
    await tab.context.close()


async def titles(site: Site, plan: Body) -> list[str]:
    return [step["title"] for step in (await site.world.agent.status(plan))["pendingSteps"]]


def expect_one_refusal(site: Site) -> None:
    """Check that the browser logged a response with status 400, and no other error."""
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
        # The button must keep the focus, so that Enter can move the step again.
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
    await expect(page.get_by_text("the condition is empty")).to_be_visible()
    await accessible(page)
    await take_picture(page, "condition-form-light", "light")
    expect_one_refusal(site)
