"""Waybook's map (an MCP App) in a simulated chat client, with a real server."""

import json

from playwright.async_api import Page, expect

from browser.chat_host import call_in_chat, open_chat
from browser.served_site import Site
from org_env import make_step

MAX_BYTES = 10_000
#: Milliseconds within which the app updates itself, even on a busy machine.
SOON = 15_000


def no_stream(site: Site) -> None:
    """Ignore 405 errors: older MCP clients request an event stream, which the server refuses."""
    site.faults[:] = [fault for fault in site.faults if "405" not in fault]


async def test_plan_map_in_chat_updates_live_and_records_review_decisions(
    page: Page, site: Site
) -> None:
    agent = site.world.agent
    names = ["Find <b>them</b>", "Compare", "Write it up"]
    plan = await agent.plan([make_step(title=name) for name in names], name="Rivers & <i>lakes</i>")
    async with open_chat(site.world, "pat", profile="research") as address:
        await page.goto(address)
        learned, app = await call_in_chat(page, "get_plan_status", {"planId": plan["planId"]})
        assert learned["mimeType"] == "text/html;profile=mcp-app"
        assert learned["bytes"] < MAX_BYTES
        assert "draw_map" not in learned["forModels"]
        await expect(app.get_by_role("heading")).to_have_text("Rivers & <i>lakes</i>")
        await expect(app.locator("#done")).to_have_text("0 of 3 steps done")
        await expect(app.locator("svg.waymap")).to_contain_text("Find <b>them</b>")

        # This change is not made through the app, but the app must show it.
        await agent.submit(await agent.take(plan))
        await expect(app.locator("#done")).to_have_text("1 of 3 steps done", timeout=SOON)
        compared = await agent.take(plan)
        args = {"stepId": compared["stepId"], "summary": "Is this enough?", "questions": ["Why?"]}
        await agent.call("request_user_review", **args, resultSummary="Nile, Amazon")
        card = app.locator("#card")
        await expect(card).to_contain_text("Decision needed: step 2, Compare", timeout=SOON)
        for words in ("Is this enough?", "? Why?", "Nile, Amazon"):
            await expect(card).to_contain_text(words)

        # Sending the step back needs a comment. After that, the step waits for an agent who claims
        # it.
        await card.get_by_role("button", name="Send back").click()
        await expect(app.get_by_role("status")).to_contain_text("Say what should be different")
        await card.get_by_label("Feedback").fill("Add the Congo.")
        await card.get_by_role("button", name="Send back").click()
        await expect(card).to_be_hidden(timeout=SOON)
        again = await agent.take(plan, sessionId="another conversation")
        assert again["stepId"] == compared["stepId"]
        assert again["instructions"].endswith("Add the Congo.")

        await agent.call("request_user_review", **args, sessionId="another conversation")
        await card.get_by_role("button", name="Approve").click(timeout=SOON)
        await expect(app.locator("#done")).to_have_text("2 of 3 steps done", timeout=SOON)
        await expect(app.get_by_role("status")).to_have_text("Your decision is recorded.")
        heard = await page.evaluate("heard")
        assert heard["app"] == {"name": "waybook-map", "version": "1"}
        assert len(heard["messages"]) == 2
        assert "“approve” to step 2, Compare" in heard["messages"][1]
        assert plan["planId"] in heard["messages"][1]
        assert max(heard["sizes"]) > 200
    no_stream(site)
    assert (await agent.take(plan))["stepOrder"] == 3
    entries = await site.world.entries(agent.org_id, plan["planId"])
    records = [(entry.actor, entry.channel, json.loads(entry.details)) for entry in entries]
    decided = [record for record in records if record[2].get("action") == "decision"]
    assert [details["decision"] for _, _, details in decided] == ["modify", "approve"]
    for actor, channel, details in decided:
        assert (actor, channel, details["place"]) == ("pat", "mcp", "app")


async def test_feedback_on_map_in_chat_starts_the_next_stage(page: Page, site: Site) -> None:
    agent = site.world.agent
    run = await agent.run()
    await agent.work_off(run)
    async with open_chat(site.world, "pat", profile="runs") as address:
        await page.goto(address)
        _, app = await call_in_chat(page, "get_run_progress", {"runId": run["runId"]}, "dark")
        await expect(app.locator("#done")).to_contain_text("1 of ")
        await expect(app.locator("#card")).to_contain_text("Feedback needed")
        await expect(app.get_by_role("button")).to_have_count(1)
        await expect(app.locator("body")).to_have_css("background-color", "rgb(20, 23, 29)")
        await expect(app.locator("svg .ground")).to_have_css("fill", "rgb(20, 23, 29)")
        await app.get_by_label("Feedback").fill("Only the long ones.")
        await app.get_by_role("button", name="Next stage").click()
        await expect(app.locator("#card")).to_be_hidden(timeout=SOON)
        await expect(app.locator("svg")).to_contain_text("Only the long ones.")
        heard = await page.evaluate("heard")
        assert "Go on" in heard["messages"][0]
    no_stream(site)
    job = await agent.job(run)
    assert "Only the long ones." in str(job)


async def test_map_in_chat_shows_workflow_or_unknown_plan_error(page: Page, site: Site) -> None:
    theirs = site.world.other_org_plan["planId"]
    async with open_chat(site.world, "pat") as address:
        await page.goto(address)
        _, app = await call_in_chat(page, "get_dag_map", {"dagSlug": "deep-research"})
        await expect(app.locator("svg .stage").first).to_be_visible()
        await expect(app.locator("#line")).to_be_hidden()
        await page.reload()
        _, app = await call_in_chat(page, "get_plan_status", {"planId": theirs})
        await expect(app.get_by_role("status")).to_contain_text(f"there is no plan '{theirs}' here")
        await expect(app.locator("svg")).to_have_count(0)
    no_stream(site)
