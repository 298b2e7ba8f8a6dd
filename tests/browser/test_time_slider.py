"""The time slider of a plan, moved with the keyboard, and without JavaScript."""

from playwright.async_api import Page, expect

from browser.axe import accessible
from browser.pictures import take_picture
from browser.served_site import Site
from org_env import Body, make_step


async def make_worked_plan(site: Site) -> Body:
    """Create a plan of which two steps are done, one hour apart."""
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
    await expect(page.locator("#then").get_by_text("planning")).to_be_visible()
    await slider.press("End")
    await slider.press("ArrowLeft")
    await expect(page.get_by_text("1 of 5 done")).to_be_visible()
    await expect(page.locator('#map [data-status="in_progress"]').first).to_be_visible()
    for theme in ("light", "dark"):
        await take_picture(page, f"time-slider-{theme}", theme)
