"""Agents in a browser: what an agent did yesterday, and what it cost."""

from dataclasses import replace

from playwright.async_api import Browser, Page, expect

from browser.axe import accessible
from browser.served_site import Site
from org_env import AgentClient, Body, OrgEnv, make_step

TITLES = ("Read the contracts", "Compare the prices", "Ask the vendor", "Write the report")


async def make_two_days(world: OrgEnv) -> Body:
    """Let two agents work on a plan on two days; return the plan."""
    steps = [make_step(title=title) for title in TITLES]
    plan = await world.agent.plan(steps, name="Choose a billing vendor")
    coder, cursor = (
        AgentClient(world.dispatcher, replace(world.agent.caller, user="local", client=name))
        for name in ("claude-code", "cursor")
    )
    usage = {"inputTokens": 12_000, "outputTokens": 800, "costUsd": 0.04, "model": "opus"}
    first = await coder.take(plan, sessionId="night-shift")
    await coder.submit(first, sessionId="night-shift", usage=usage)
    asking = await coder.take(plan, sessionId="night-shift")
    change = {"action": "fail_step", "stepId": asking["stepId"], "reason": "The site is down."}
    await coder.call(
        "modify_plan", planId=plan["planId"], modifications=[change], sessionId="night-shift"
    )
    world.clock.advance(days=1)
    await coder.take(plan, sessionId="night-shift", another=True)
    await cursor.take(plan, sessionId="morning", another=True)
    await world.dispatcher.calls.flush()
    return plan


async def see_yesterday(page: Page, site: Site) -> None:
    """Walk from the front page to what an agent did yesterday, and on to one of its steps."""
    await page.goto(site.address)
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Agents").click()
    row = page.locator("#list tbody tr").filter(has_text="night-shift")
    await expect(row).to_contain_text("claude-code")
    await expect(row).to_contain_text("step 3: Ask the vendor")
    await expect(page.locator("#list tbody tr").filter(has_text="morning")).to_contain_text(
        "cursor"
    )
    await row.get_by_role("link", name="local").click()
    await expect(page.locator(".activity tbody tr")).to_have_count(5)
    await page.get_by_role("link", name="Yesterday").click()
    await expect(page.locator("#counts")).to_contain_text("2 started1 completed1 failed")
    rows = page.locator(".activity tbody tr")
    await expect(rows).to_have_count(4)
    await expect(rows.first).to_contain_text("The site is down.")
    await expect(page.get_by_role("heading", name="Tuesday, January 1, 2030")).to_be_visible()


async def test_user_opens_yesterdays_activity_of_an_agent(page: Page, site: Site) -> None:
    await make_two_days(site.world)
    await see_yesterday(page, site)
    await accessible(page)
    await page.locator(".activity").get_by_role("link", name="step 2: Compare").first.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Compare the prices")


async def test_activity_page_of_an_agent_opens_without_javascript(
    browser: Browser, site: Site
) -> None:
    await make_two_days(site.world)
    context = await browser.new_context(java_script_enabled=False)
    await see_yesterday(await context.new_page(), site)
    await context.close()


async def test_user_opens_agent_and_cost_pages_from_the_audit(page: Page, site: Site) -> None:
    await make_two_days(site.world)
    await page.goto(f"{site.address}/audit?subject=billing+vendor&event=step_completed")
    row = page.locator("#list tbody tr")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("step 1: Read the contracts")
    await row.get_by_role("link", name="local").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("night-shift")
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Cost").click()
    await expect(page.locator("#totals")).to_contain_text("$0.04")
    await expect(page.locator("#agents tbody tr")).to_contain_text("night-shift")
    await page.locator("#work").get_by_role("link", name="Choose a billing vendor").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Choose a billing vendor")
