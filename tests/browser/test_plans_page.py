"""List of plans in a browser."""

from playwright.async_api import Page, expect

from browser.axe import accessible
from browser.served_site import Site
from org_env import AgentClient, Body


async def some_plans(agent: AgentClient) -> list[Body]:
    """Create three plans: one in progress, one in review, one completed."""
    plans = [await agent.plan(3, name=f"{name} of the north") for name in ("Rivers", "Lakes")]
    for plan in plans:
        await agent.submit(await agent.take(plan))
    taken = await agent.take(plans[1])
    await agent.review(taken, summary="Which one?")
    await agent.work_through(await agent.plan(1, name="Seas"))
    return plans


async def test_plans_page_shows_progress_and_prompt_for_resuming_a_plan(
    page: Page, site: Site
) -> None:
    await page.goto(f"{site.address}/plans")
    await expect(page.get_by_text("claude mcp add --transport http waybook")).to_be_visible()
    await accessible(page)
    rivers, _ = await some_plans(site.world.agent)
    await page.reload()
    await accessible(page)
    row = page.get_by_role("row").filter(has_text="Rivers of the north")
    await expect(row.get_by_role("img", name="Ready")).to_be_visible()
    await expect(row).to_contain_text("1 of 3")
    await expect(page.get_by_text("Next door")).to_have_count(0)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await row.get_by_label("More actions").click()
    await row.get_by_role("button", name="Copy resume prompt").click()
    await expect(row.get_by_role("button")).to_have_text("Copied")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"Continue the Waybook plan {rivers['planId']}.")
    await page.get_by_role("link", name="Done 1").click()
    await expect(page).to_have_url(f"{site.address}/plans?state=completed")
    await page.wait_for_load_state()
    await expect(page.get_by_role("row").filter(has_text="Seas")).to_be_visible()
    await expect(row).to_have_count(0)


async def test_keyboard_shortcuts_navigate_lists_but_not_while_typing(
    page: Page, site: Site
) -> None:
    await some_plans(site.world.agent)
    await page.goto(f"{site.address}/plans")
    focused = page.locator(":focus")
    await page.keyboard.press("j")
    await expect(focused).to_have_text("Lakes of the north")
    # The selection must stay when a live update replaces the list.
    async with page.expect_response(lambda reply: "part=" in reply.url):
        await page.evaluate("htmx.trigger('#plans', 'live')")
    await expect(focused).to_have_text("Lakes of the north")
    await page.keyboard.press("j")
    await expect(focused).to_have_text("Rivers of the north")
    await page.keyboard.press("k")
    await expect(focused).to_have_text("Lakes of the north")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await accessible(page)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await page.keyboard.press("/")
    await page.keyboard.type("jki?g")
    await expect(page.get_by_label("Name or id")).to_have_value("jki?g")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{site.address}/plans?q=jki%3Fg")
    await page.wait_for_load_state()
    await page.keyboard.press("g")
    await page.keyboard.press("i")
    await expect(page).to_have_url(f"{site.address}/inbox")
    await page.wait_for_load_state()
    await page.keyboard.press("g")
    await page.keyboard.press("p")
    await expect(page).to_have_url(f"{site.address}/plans")
    await page.wait_for_load_state()
    await page.keyboard.press("g")
    await page.keyboard.press("o")
    await expect(page).to_have_url(f"{site.address}/")
    await page.wait_for_load_state()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Lakes of the north, step 2")).to_be_visible()
