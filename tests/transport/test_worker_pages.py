"""Pages that show workers, and the decision at a cap in the inbox."""

from org_env import Body, OrgEnv
from transport.page_client import Browser, send

HOSTILE = "<script>alert(1)</script>"


async def pause(world: OrgEnv) -> Body:
    """Let a plan reach its cap; return the cap."""
    plan = await world.agent.plan(name="Lakes")
    paused = await world.agent.call(
        "reserve_work",
        planId=plan["planId"],
        agent="codex",
        maximum={"costUsd": 9},
        caps=[{"scope": "plan", "unit": "costUsd", "limit": 5}],
    )
    return {**paused["cap"], "planId": plan["planId"]}


async def status(world: OrgEnv, cap: Body) -> str:
    reply = await world.agent.call(
        "reserve_work", planId=cap["planId"], agent="codex", maximum={"costUsd": 9}
    )
    return str(reply["status"])


async def test_inbox_raises_a_cap_with_a_click(world: OrgEnv, browser: Browser) -> None:
    cap = await pause(world)
    page = (await browser.get("/inbox")).text
    assert "Lakes: 0 of 5 dollars are used." in page
    assert 'value="10"' in page
    low = await send(browser, "/inbox", at="/caps", capId=cap["capId"], limit="3")
    assert "a new limit must be above it" in low.text
    await send(browser, "/inbox", at="/caps", capId=cap["capId"], limit="10")
    assert "Lakes" not in (await browser.get("/inbox")).text
    assert await status(world, cap) == "granted"


async def test_inbox_ends_the_work_at_a_cap(world: OrgEnv, browser: Browser) -> None:
    cap = await pause(world)
    await send(browser, "/inbox", at="/caps", capId=cap["capId"], limit="10", end="true")
    assert await status(world, cap) == "ended"


async def test_agents_page_shows_state_and_output_of_workers(
    world: OrgEnv, browser: Browser
) -> None:
    plan = await world.agent.plan(name="Lakes")
    await world.agent.take(plan, sessionId="w1")
    await world.dispatcher.calls.flush()
    await world.agent.call(
        "report_worker",
        sessionId="w1",
        agent="codex",
        state="sleeping",
        until="2100-01-01T14:00:00Z",
        reason=HOSTILE,
        planId=plan["planId"],
        lines=[HOSTILE, "tests pass"],
    )
    for path in ("/agents", f"/agents/{world.agent.caller.user}?session=w1"):
        page = (await browser.get(path)).text
        assert "codex" in page, path
        assert "tests pass" in page
        assert HOSTILE not in page
    page = (await browser.get(f"/plans/{plan['planId']}")).text
    assert "codex resumes" in page
