"""Stories of daily work, with JavaScript and without: find a failure, retry it, read a result."""

from playwright.async_api import Page, expect

from browser.served_site import Site
from org_env import Body, make_step

ERROR = "HTTPError: 503 Service Unavailable: the archive of the ledger does not answer"


async def make_failed_plan(site: Site) -> Body:
    """Create a plan whose second step failed, after its first step was completed."""
    agent = site.world.agent
    steps = [make_step(title=f"Read source {n}") for n in (1, 2, 3)]
    plan = await agent.plan(steps, name="Compare the ledgers")
    await agent.submit(await agent.take(plan), {"found": "three errors"})
    taken = await agent.take(plan)
    failure = {"action": "fail_step", "stepId": taken["stepId"], "reason": ERROR}
    await agent.call("modify_plan", planId=plan["planId"], modifications=[failure])
    return plan


async def test_user_finds_why_a_step_failed_and_retries(tab: Page, site: Site) -> None:
    plan = await make_failed_plan(site)
    await tab.goto(site.address)
    await expect(tab.locator("#trouble")).to_contain_text(ERROR)
    await tab.locator("#trouble").get_by_role("link", name="Compare the ledgers").first.click()
    await expect(tab.locator("#s2")).to_contain_text(ERROR)
    await tab.locator("#map").get_by_role("link").nth(1).click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Read source 2")
    await expect(tab.locator("main")).to_contain_text(ERROR)
    await tab.get_by_text("Retry", exact=True).first.click()
    await tab.locator("#do-retry_step").get_by_label("Reason").fill("the archive is back")
    await tab.get_by_role("button", name="Retry").click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("pending")
    taken = await site.world.agent.acting_as("bob").take(plan)
    assert (taken["stepId"], taken["attempt"]) == (plan["stepIds"][1], 2)
    await site.world.agent.acting_as("bob").submit(taken, {"found": "nothing new"})
    await tab.goto(f"{site.address}/plans/{plan['planId']}")
    await expect(tab.locator("#s2")).to_contain_text("completed")


async def test_user_opens_csv_output_as_table_and_returns(tab: Page, site: Site) -> None:
    agent = site.world.agent
    plan = await make_failed_plan(site)
    for content in ("river,km\nNile,6650\n", "river,km\nNile,6650\nAmazon,6575\n"):
        stored = {"mediaType": "text/csv", "title": "Rivers", "content": content}
        await agent.call("store_research_output", planId=plan["planId"], **stored)
    await tab.goto(f"{site.address}/outputs")
    await tab.get_by_role("link", name="Rivers", exact=True).click()
    table = tab.get_by_role("table")
    await expect(table.get_by_role("columnheader")).to_have_text(["river", "km"])
    await expect(table.get_by_role("row")).to_have_count(3)
    await tab.get_by_role("link", name="Version 1").click()
    await expect(table.get_by_role("row")).to_have_count(2)
    await tab.get_by_role("link", name="Compare the ledgers").click()
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Compare the ledgers")
    await tab.get_by_role("link", name="Rivers", exact=True).first.click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Rivers")
