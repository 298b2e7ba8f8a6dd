"""The inbox in a browser: a review arrives, is rejected, arrives again, and is approved."""

from playwright.async_api import Locator, Page, expect

from browser.axe import accessible
from browser.served_site import Site
from org_env import Body

RESULT = {"rivers": [{"name": "Nile", "km": 6650}, {"name": "Amazon", "km": 6400}]}


async def ask(site: Site, plan: Body, **more: object) -> None:
    agent = site.world.agent
    taken = await agent.take(plan)
    args = {"summary": "Nile or Amazon?", "questions": ["Which source counts?"], **more}
    await agent.call("request_user_review", stepId=taken["stepId"], resultSummary=RESULT, **args)


async def test_plan_completes_after_change_request_and_approval_in_inbox(
    tab: Page, site: Site
) -> None:
    agent = site.world.agent
    plan = await agent.plan(1, name="Rivers of the south")
    await ask(site, plan)
    site.world.clock.advance(minutes=4)
    await tab.goto(site.address)
    await tab.get_by_role("link", name="Rivers of the south, step 1").click()
    card = tab.get_by_role("article")
    await expect(card).to_contain_text("requested by ann")
    await expect(card).to_contain_text("Which source counts?")
    await expect(card).to_contain_text("6650")
    await card.get_by_label("Feedback").fill("Take the farther source.")
    await card.get_by_role("button", name="Request changes").click()
    await expect(tab.get_by_text("Done: pat requested changes").or_(nothing(tab))).to_be_visible()
    again = await agent.take(plan)
    assert again["instructions"].endswith("User feedback: Take the farther source.")
    await agent.call("request_user_review", stepId=again["stepId"], summary="So the Amazon?")
    await tab.goto(f"{site.address}/inbox")
    await expect(card).to_contain_text("attempt 2")
    await card.get_by_role("button", name="Approve").click()
    await expect(tab.get_by_text("Done: pat approved").or_(nothing(tab))).to_be_visible()
    assert (await agent.status(plan))["status"] == "completed"


async def test_second_reviewer_sees_decision_of_first_reviewer_in_inbox(
    page: Page, site: Site
) -> None:
    agent = site.world.agent
    plan, other = await agent.plan(2, name="Rivers"), await agent.plan(1, name="Lakes")
    await ask(site, plan)
    await ask(site, other)
    second = await page.context.new_page()
    site.watch(second)
    for tab in (page, second):
        await tab.goto(f"{site.address}/inbox")
        await tab.get_by_label("Feedback").first.fill("Half a thought of mine")
        await tab.get_by_label("Feedback").last.fill("On lakes, later")
    await page.get_by_role("button", name="Skip step").first.click()
    await expect(page.get_by_text("Done: pat skipped the step")).to_be_visible()
    site.user = "quin"
    await second.get_by_role("button", name="Approve", exact=True).first.click()
    card = second.get_by_role("article").first
    await expect(card).to_contain_text("Already decided by pat: skipped the step")
    await expect(card).to_contain_text("Half a thought of mine")
    # A live update must remove neither the last message nor text that the user has half typed.
    await second.evaluate("htmx.trigger('#inbox', 'live')")
    await expect(second.get_by_text("This page is out of date")).to_be_visible()
    await expect(second.get_by_label("Feedback")).to_have_value("On lakes, later")
    await accessible(second)


async def test_inbox_is_accessible_and_updates_live(page: Page, site: Site) -> None:
    await page.goto(f"{site.address}/inbox")
    await expect(nothing(page)).to_be_visible()
    await accessible(page)
    await ask(site, await site.world.agent.plan(1, name="Rivers"))
    run = await site.world.agent.run(name="Lakes")
    await site.world.agent.work_off(run)
    await page.evaluate("htmx.trigger('#inbox', 'live')")
    await expect(page.get_by_role("article")).to_have_count(2)
    await accessible(page)
    await page.get_by_role("button", name="Reject…").click()
    await expect(page.get_by_text("Reject?")).to_be_visible()
    await accessible(page)
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(page.get_by_role("alert")).to_contain_text("enter your feedback on the stage")
    await page.get_by_label("Feedback").fill("Go on.")
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(page.get_by_text("Done: pat gave feedback")).to_be_visible()
    await accessible(page)


def nothing(page: Page) -> Locator:
    return page.get_by_text("Nothing is waiting for you")
