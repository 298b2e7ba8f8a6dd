"""Search page and command palette in a browser."""

from playwright.async_api import Page, expect

from browser.axe import accessible
from browser.pictures import take_picture
from browser.sample_org import create_sample_org
from browser.served_site import Site
from org_env import AgentClient, Body, make_step

SENTENCE = "The moraine dam of the upper lake failed twice before the spring flood"


async def make_result(agent: AgentClient) -> tuple[Body, str]:
    """Create a plan with a result; return the plan and the path of the page with the result."""
    plan = await agent.plan([make_step(title="Survey the lake"), make_step()], name="Floods")
    taken = await agent.take(plan)
    await agent.submit(taken, {"findings": ["Rain fell. " * 900, f"First. {SENTENCE}. Then dry."]})
    return plan, f"/plans/{plan['planId']}/steps/{taken['stepId']}"


async def test_command_palette_can_be_used_by_keyboard_only(page: Page, site: Site) -> None:
    agent = site.world.agent
    plan, path = await make_result(agent)
    await page.goto(f"{site.address}/plans")
    await page.get_by_role("link", name="Floods").focus()
    await page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search and commands")
    field = palette.get_by_role("combobox")
    await expect(field).to_be_focused()
    await expect(palette.get_by_role("option")).to_have_count(15)
    await accessible(page)
    await page.keyboard.type("inb")
    await expect(palette.get_by_role("option", selected=True)).to_have_text("Inbox")
    await page.keyboard.press("Escape")
    await expect(palette).to_be_hidden()
    await expect(page.get_by_role("link", name="Floods")).to_be_focused()
    await page.keyboard.press("Control+k")
    await expect(field).to_have_value("")
    await page.keyboard.type("moraine dam fail")
    await expect(palette).to_have_attribute("data-shown", "moraine dam fail")
    chosen = palette.get_by_role("option", selected=True)
    await expect(chosen).to_contain_text("Survey the lake")
    await expect(field).to_have_attribute("aria-activedescendant", "palette-option-0")
    await accessible(page)
    await page.keyboard.press("ArrowUp")
    await expect(chosen).to_have_text("Search everything for “moraine dam fail”")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{site.address}{path}#result")
    await page.wait_for_load_state()
    # Text that the user types before the palette has loaded must not be lost.
    await page.keyboard.press("Control+k")
    await page.keyboard.type("floo")
    await expect(field).to_have_value("floo")
    await expect(palette).to_have_attribute("data-shown", "floo")
    await expect(chosen).to_contain_text("Floods")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{site.address}/plans/{plan['planId']}")


async def test_command_palette_opens_by_header_link_and_fits_every_window(
    page: Page, site: Site
) -> None:
    await create_sample_org(site.world)
    await page.goto(site.address)
    for width in (1440, 1024, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.get_by_role("link", name="Search").click()
        palette = page.get_by_role("dialog", name="Search and commands")
        await palette.get_by_role("combobox").fill("billing")
        await expect(palette.get_by_role("option").first).to_contain_text("billing")
        box = await palette.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        for theme in ("light", "dark"):
            await take_picture(page, f"palette-{width}-{theme}", theme)
        await page.keyboard.press("Control+k")
        await expect(palette).to_be_hidden()


async def test_enter_in_command_palette_without_suggestions_opens_search_page(
    page: Page, site: Site
) -> None:
    await make_result(site.world.agent)
    await page.goto(site.address)
    await page.keyboard.press("Meta+k")
    palette = page.get_by_role("dialog", name="Search and commands")
    await expect(palette.get_by_role("option")).to_have_count(15)
    # Without the suggestions, which are blocked here, Enter must open the search page.
    await page.route("**/search?part=options&q=zz*", lambda route: route.abort())
    await palette.get_by_role("combobox").fill("zzz lake")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{site.address}/search?q=zzz+lake")
    await expect(page.get_by_text("No results for “zzz lake”.")).to_be_visible()
    # The browser may log an error about the request that the test blocked.
    site.faults[:] = [fault for fault in site.faults if "ERR_FAILED" not in fault]
