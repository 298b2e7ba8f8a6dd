"""The page of a plan and the page of a step, in a browser."""

from playwright.async_api import Page, expect

from browser.axe import accessible
from browser.served_site import Site
from org_env import Body, make_step


async def make_busy_plan(site: Site) -> Body:
    """Create a plan with every state and event that a page can show, except a review."""
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
    failure = {"action": "fail_step", "stepId": second["stepId"], "reason": "no water"}
    await agent.call("modify_plan", planId=plan["planId"], modifications=[failure])
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
    assert len([url for url in requests if not url.startswith("data:")]) <= 6
    await expect(page.get_by_text("41 of 59 done")).to_be_visible()
    await expect(page.get_by_role("region", name="Map of the plan")).to_be_visible()
    # The map must be scrolled to the current step.
    box = page.locator(f'#map [data-step="{plan["stepIds"][42]}"]')
    seen, drawn = await page.locator("#map").bounding_box(), await box.bounding_box()
    assert seen
    assert drawn
    assert seen["y"] < drawn["y"] < seen["y"] + seen["height"]
    await expect(page.locator(".line rect")).to_have_count(43)
    await accessible(page)
    await page.locator(".alert").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("River 43")
    await page.get_by_text("Retry", exact=True).first.click()
    await page.locator("#do-retry_step").get_by_label("Reason").fill("its agent is gone")
    await accessible(page)
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("pending")
    await expect(page.get_by_text("attempt 2")).to_be_visible()
    await expect(page.get_by_text("its agent is gone")).to_be_visible()
    taken = await site.world.agent.take(plan)
    assert (taken["stepOrder"], taken["attempt"]) == (43, 2)
