"""Decisions with evidence in a browser: by keyboard, for several reviews, and by comparison."""

from playwright.async_api import Page, expect

from browser.axe import accessible
from browser.served_site import Site
from org_env import Body
from run_documents import render_all

FIRST = "# Rivers\n\n| river | km |\n|---|---|\n| Nile | 6650 |\n| Amazon | 6400 |\n"
SECOND = FIRST.replace("6400", "6575")


async def ask(site: Site, name: str) -> Body:
    plan = await site.world.agent.plan(1, name=name)
    await request_review(site, plan, FIRST)
    site.world.clock.advance(seconds=1)
    return plan


async def request_review(site: Site, plan: Body, result: str) -> None:
    agent = site.world.agent
    taken = await agent.take(plan)
    args = {"summary": f"Is **{plan['planId']}** right?", "resultSummary": result}
    await agent.call("request_user_review", stepId=taken["stepId"], **args)


async def test_five_reviews_can_be_decided_in_inbox_by_keyboard_only(
    page: Page, site: Site
) -> None:
    plans = [await ask(site, f"Plan {n}") for n in range(5)]
    await page.goto(f"{site.address}/inbox")
    keys = page.keyboard
    await keys.press("a")
    await expect(page.get_by_role("button", name="Approve", exact=True).first).to_be_focused()
    assert (await site.world.agent.status(plans[0]))["status"] == "awaiting_review"
    await keys.press("Enter")
    for n in (1, 2):
        await expect(page.get_by_role("link", name=f"Plan {n}")).to_be_focused()
        await keys.press("a")
        await keys.press("Enter")
    await expect(page.get_by_role("link", name="Plan 3")).to_be_focused()
    await keys.press("n")
    await expect(page.get_by_role("link", name="Plan 4")).to_be_focused()
    await keys.press("m")
    await keys.type("an a and an m: Take the farther source.")
    await keys.press("Control+Enter")
    await expect(page.get_by_text("Done: pat requested changes")).to_be_visible()
    await expect(page.get_by_role("link", name="Plan 3")).to_be_focused()
    await keys.press("a")
    await keys.press("Enter")
    await expect(page.get_by_text("Done: pat approved")).to_have_count(4)
    statuses = [(await site.world.agent.status(plan))["status"] for plan in plans]
    assert statuses == [*["completed"] * 4, "executing"]


async def test_approving_selected_reviews_shows_an_outcome_for_each_review(
    tab: Page, site: Site
) -> None:
    plans = [await ask(site, f"Plan {n}") for n in range(3)]
    await tab.goto(f"{site.address}/inbox")
    await tab.get_by_label("Select Plan 0").check()
    await tab.get_by_label("Select Plan 2").check()
    other = await tab.context.new_page()
    await other.goto(f"{site.address}/plans/{plans[2]['planId']}")
    await other.get_by_role("button", name="Skip step").click()
    await expect(other.get_by_role("button", name="Skip step")).to_have_count(0)
    await tab.get_by_role("button", name="Approve selected").click()
    outcomes = tab.locator("#bulk-result").get_by_role("listitem")
    await expect(outcomes).to_have_count(2)
    await expect(outcomes.first).to_contain_text("Plan 0, step 1: approved")
    await expect(outcomes.last).to_contain_text("Plan 2, step 1: not approved")
    agent = site.world.agent
    assert (await agent.status(plans[0]))["status"] == "completed"
    assert (await agent.status(plans[1]))["status"] == "awaiting_review"


async def test_inbox_with_review_evidence_is_accessible_and_links_documents(
    page: Page, site: Site
) -> None:
    plan = await ask(site, "Rivers")
    await page.goto(f"{site.address}/inbox")
    await page.get_by_label("Feedback").fill("Take the farther source.")
    await page.get_by_role("button", name="Request changes").click()
    await expect(page.get_by_text("Done: pat requested changes")).to_be_visible()
    await request_review(site, plan, SECOND)
    await ask(site, "Lakes")
    agent = site.world.agent
    await agent.work_off(await agent.run("dialectic", ["opus", "gpt"], input="A lighthouse."))
    await render_all(agent)
    await page.goto(f"{site.address}/inbox")
    await expect(page.get_by_role("article")).to_have_count(3)
    await accessible(page)
    address = await page.locator(".documents a").first.get_attribute("href")
    reply = await page.request.get(f"{site.address}{address}")
    assert reply.status == 200
    await page.get_by_role("button", name="Approve selected").click()
    await expect(page.get_by_text("Select at least one review.")).to_be_visible()
