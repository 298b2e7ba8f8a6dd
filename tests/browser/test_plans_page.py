"""The front page, in a browser."""

from playwright.async_api import Page, expect

from browser.site import Site


async def test_a_plan_is_listed_with_how_far_it_is(page: Page, site: Site) -> None:
    plan = await site.world.agent.plan(3, name="Rivers of the north")
    await site.world.agent.submit(await site.world.agent.take(plan))
    await page.goto(site.address)
    row = page.get_by_role("row").filter(has_text="Rivers of the north")
    await expect(row).to_contain_text("executing")
    await expect(row).to_contain_text("1 of 3")
    await expect(page.get_by_text("Next door")).to_have_count(0)
