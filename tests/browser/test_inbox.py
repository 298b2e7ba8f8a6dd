"""Inbox in a browser: decisions by mouse and by keyboard, also on several reviews at once."""

import re

from playwright.async_api import Locator, Page, expect

from browser.axe import accessible
from browser.served_site import Site
from org_env import Body
from run_documents import render_all

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
    await expect(card).to_contain_text("Requested by ann")
    await expect(card).to_contain_text("Which source counts?")
    await expect(card).to_contain_text("6650")
    await card.get_by_label("Feedback").fill("Take the farther source.")
    await card.get_by_role("button", name="Request changes").click()
    await expect(nothing(tab)).to_be_visible()
    await expect(toast(tab)).to_have_text(" pat requested changes: Rivers of the south, step 1.")
    again = await agent.take(plan)
    assert again["instructions"].endswith("User feedback: Take the farther source.")
    await agent.review(again, summary="So the Amazon?")
    await tab.goto(f"{site.address}/inbox")
    await expect(card).to_contain_text("attempt 2")
    await card.get_by_role("button", name="Approve").click()
    await expect(nothing(tab)).to_be_visible()
    await expect(toast(tab)).to_contain_text("pat approved: Rivers of the south")
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
        await tab.get_by_label("Feedback").fill("Half a thought of mine")
    await page.get_by_role("button", name="Skip step").click()
    await expect(toast(page)).to_contain_text("pat skipped the step: Rivers, step 1")
    await expect(page.get_by_role("heading", name="Lakes, step 1")).to_be_focused()
    site.user = "quin"
    # A live update must keep the text that the user is typing.
    await second.evaluate("htmx.trigger('#inbox', 'live')")
    await expect(second.get_by_text("This page is out of date")).to_be_visible()
    await expect(second.get_by_label("Feedback")).to_have_value("Half a thought of mine")
    await second.get_by_role("button", name="Approve", exact=True).click()
    card = second.get_by_role("article")
    await expect(card).to_contain_text("Already decided by pat: skipped the step")
    await expect(card).to_contain_text("Half a thought of mine")
    await second.evaluate("htmx.trigger('#inbox', 'live')")
    await expect(second.get_by_text("This page is out of date")).to_be_visible()
    await expect(card).to_contain_text("Half a thought of mine")
    await accessible(second)


async def test_inbox_is_accessible_and_updates_live(page: Page, site: Site) -> None:
    await page.goto(f"{site.address}/inbox")
    await expect(nothing(page)).to_be_visible()
    await accessible(page)
    await ask(site, await site.world.agent.plan(1, name="Rivers"))
    run = await site.world.agent.run(name="Lakes")
    await site.world.agent.work_off(run)
    await page.evaluate("htmx.trigger('#inbox', 'live')")
    await expect(page.locator("#box li")).to_have_count(2)
    await accessible(page)
    await page.get_by_role("button", name="Reject…").click()
    await expect(page.get_by_text("Reject?")).to_be_visible()
    await accessible(page)
    await page.get_by_role("link", name="Scope is completed").click()
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(page.get_by_role("alert")).to_contain_text("enter your feedback on the stage")
    await page.get_by_label("Feedback").fill("Go on.")
    await page.get_by_role("button", name="Send feedback and start the next stage").click()
    await expect(toast(page)).to_contain_text("Feedback sent.")
    await accessible(page)


def nothing(page: Page) -> Locator:
    return page.get_by_text("Nothing is waiting for you")


def toast(page: Page) -> Locator:
    return page.locator("#toast")


# Tests of decisions by keyboard, decisions on selected reviews, and reviews with a result.


FIRST = "# Rivers\n\n| river | km |\n|---|---|\n| Nile | 6650 |\n| Amazon | 6400 |\n"
SECOND = FIRST.replace("6400", "6575")


async def ask_about(site: Site, name: str) -> Body:
    plan = await site.world.agent.plan(1, name=name)
    await request_review(site, plan, FIRST)
    site.world.clock.advance(seconds=1)
    return plan


async def request_review(site: Site, plan: Body, result: str) -> None:
    agent = site.world.agent
    taken = await agent.take(plan)
    args = {"summary": f"Is **{plan['planId']}** right?", "resultSummary": result}
    await agent.review(taken, **args)


async def test_six_reviews_are_decided_with_at_most_14_keys(page: Page, site: Site) -> None:
    plans = [await ask_about(site, f"Plan {n}") for n in range(6)]
    await page.goto(f"{site.address}/inbox")
    pressed = 0
    for n in range(6):
        await expect(page.get_by_role("heading", name=f"Plan {n}, step 1")).to_be_visible()
        if n:
            await expect(page.get_by_role("heading", name=f"Plan {n}, step 1")).to_be_focused()
        await page.keyboard.press("a")
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
        assert (await site.world.agent.status(plans[n]))["status"] == "awaiting_review"
        await page.keyboard.press("Enter")
        pressed += 2
    await expect(nothing(page)).to_be_visible()
    assert pressed <= 14
    await expect(page.get_by_text("This page is out of date")).to_be_hidden()
    statuses = [(await site.world.agent.status(plan))["status"] for plan in plans]
    assert statuses == ["completed"] * 6


async def test_keys_open_items_and_send_feedback(page: Page, site: Site) -> None:
    plans = [await ask_about(site, f"Plan {n}") for n in range(3)]
    await page.goto(f"{site.address}/inbox")
    keys = page.keyboard
    for key, n in (("n", 1), ("j", 2), ("k", 1)):
        await keys.press(key)
        await expect(page.get_by_role("heading", name=f"Plan {n}, step 1")).to_be_focused()
    await keys.press("m")
    await keys.type("an a and an m: Take the farther source.")
    await keys.press("Escape")
    await expect(page.get_by_role("heading", name="Plan 1, step 1")).to_be_focused()
    await keys.press("m")
    await keys.press("Control+Enter")
    await expect(toast(page)).to_contain_text("pat requested changes: Plan 1, step 1")
    await expect(page.get_by_role("heading", name="Plan 2, step 1")).to_be_focused()
    # The address has the open item, so a reload shows it again.
    await page.reload()
    await expect(page.get_by_role("heading", name="Plan 2, step 1")).to_be_visible()
    statuses = [(await site.world.agent.status(plan))["status"] for plan in plans]
    assert statuses == ["awaiting_review", "executing", "awaiting_review"]


async def test_phone_shows_one_item_with_links_to_neighbors(page: Page, site: Site) -> None:
    for n in range(2):
        await ask_about(site, f"Plan {n}")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(f"{site.address}/inbox")
    await expect(page.locator("#box")).to_be_hidden()
    await page.get_by_role("link", name="Next item").click()
    await expect(page.get_by_role("heading", name="Plan 1, step 1")).to_be_visible()
    await page.get_by_role("link", name="Previous item").click()
    await expect(page.get_by_role("heading", name="Plan 0, step 1")).to_be_visible()
    await page.get_by_role("link", name="All", exact=True).click()
    await expect(page.locator("#pane")).to_be_hidden()
    await accessible(page)
    await page.get_by_role("link", name="Plan 1, step 1").click()
    await expect(page.get_by_role("heading", name="Plan 1, step 1")).to_be_visible()


async def test_approving_selected_reviews_shows_an_outcome_for_each_review(
    tab: Page, site: Site
) -> None:
    plans = [await ask_about(site, f"Plan {n}") for n in range(3)]
    await tab.goto(f"{site.address}/inbox")
    await expect(tab.get_by_role("button", name="Approve selected")).to_be_hidden()
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


async def test_inbox_with_results_is_accessible_and_links_documents(page: Page, site: Site) -> None:
    plan = await ask_about(site, "Rivers")
    await page.goto(f"{site.address}/inbox")
    await page.get_by_label("Feedback").fill("Take the farther source.")
    await page.get_by_role("button", name="Request changes").click()
    await expect(toast(page)).to_contain_text("pat requested changes")
    await request_review(site, plan, SECOND)
    await ask_about(site, "Lakes")
    agent = site.world.agent
    await agent.work_off(await agent.run("dialectic", ["opus", "gpt"], input="A lighthouse."))
    await render_all(agent)
    await page.goto(f"{site.address}/inbox")
    await expect(page.locator("#box li")).to_have_count(3)
    await accessible(page)
    await page.get_by_role("link", name=re.compile("is completed")).click()
    address = await page.locator(".documents a").first.get_attribute("href")
    reply = await page.request.get(f"{site.address}{address}")
    assert reply.status == 200
    await accessible(page)
