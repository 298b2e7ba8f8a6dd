"""Front page: its sections and forms, and the summary of events since the last visit."""

import re

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv, make_step
from transport.page_client import Browser, send, visible_text
from waybook.store import audit
from waybook.transport.http.html.layout import COOKIE


def section(text: str, name: str) -> str:
    match = re.search(rf'<section id="{name}".*?</section>', text, re.DOTALL)
    assert match, text
    return visible_text(match[0])


async def read_section(browser: Browser, name: str) -> str:
    reply = await browser.get("/")
    assert reply.status_code == 200, reply.text
    return section(reply.text, name)


async def rescue(browser: Browser, fields: dict[str, str]) -> httpx2.Response:
    """Submit a form of the front page that makes failed or stalled work available again."""
    await browser.get("/")
    return await browser.post("/rescue", data={"token": browser.cookies[COOKIE], **fields})


async def fail_step(agent: AgentClient, taken: Body, reason: str) -> None:
    await agent.modify(taken, "fail_step", stepId=taken["stepId"], reason=reason)


async def fail_job(agent: AgentClient, run: Body, error: str = "The source is gone.") -> Body:
    job = await agent.job(run)
    await agent.fail_job(job, error)
    return job


async def make_stalled_plan(world: OrgEnv, name: str) -> Body:
    plan = await world.agent.plan([make_step(title=f"Look up {n}") for n in "ab"], name=name)
    await world.agent.take(plan)
    world.clock.advance(minutes=40)
    await world.agent.status(plan)
    return plan


async def test_overview_shows_only_the_beginning_of_long_reasons(
    browser: Browser, agent: AgentClient
) -> None:
    long = "word " * 2_000
    await fail_step(agent, await agent.take(await agent.plan(2)), long)
    await agent.modify(await agent.plan(1), "cancel_plan", reason=long)
    page = (await browser.get("/")).text
    assert "word word" in section(page, "trouble")
    assert page.count("word") < 200


async def test_overview_of_an_empty_org_shows_the_connect_command(browser: Browser) -> None:
    text = (await browser.get("/")).text
    assert "No plans yet" in text
    assert "claude mcp add --transport http waybook http://localhost/mcp</pre>" in text
    assert 'id="trouble"' not in text


async def test_overview_lists_pending_reviews_and_feedback_oldest_first(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    run = await agent.run(name="Rivers, twice")
    await agent.work_off(run)
    for n in range(9):
        world.clock.advance(minutes=1)
        taken = await agent.take(await agent.plan(1, name=f"Plan {n}"))
        summary = f"**Is {n}** right?\n\n| a | b |\n|---|---|\n| 1 | 2 |"
        await agent.review(taken, summary=summary)
    text = (await browser.get("/?part=work")).text
    lines = re.findall(r'<a class="name" data-item id="n-[^>]*>([^<]*)</a>', text)
    assert lines[0].startswith("Rivers, twice, ")
    assert lines[1:] == [f"Plan {n}, step 1" for n in range(7)]
    needs = section(text, "needs")
    assert "Needs you 10 8 of 10 shown" in needs
    assert "waiting 9 min" in needs
    assert "Is 0 right? a b 1 2" in needs


async def test_overview_shows_reason_and_agent_of_failed_and_stalled_work(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    await make_stalled_plan(world, "Stalled rivers")
    failing = await agent.plan([make_step(title=f"Step {n}") for n in range(3)], name="Lakes")
    await fail_step(agent, await agent.take(failing), "The archive is closed.")
    run = await agent.run(name="Deep rivers")
    await fail_job(agent, run)
    trouble = await read_section(browser, "trouble")
    assert "No heartbeat from ann for 40 min on step 1 (Look up a)" in trouble
    assert (
        "Lakes Ready · plan · Failed: step 1 (Step 0), held by ann: The archive is closed."
        in trouble
    )
    assert "Job failed: " in trouble
    assert ", held by ann): The source is gone." in trouble


async def test_trouble_section_lists_failed_plans_but_not_canceled_plans(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    condition = {
        "conditionExpression": "true",
        "ifTrueAction": "fail",
        "actionParams": {"reason": "Budget exceeded."},
    }
    failing = await agent.plan(
        [make_step(branchingConditions=[condition]), make_step()], name="Failed rivers"
    )
    await agent.submit(await agent.take(failing))
    canceled = await agent.plan(2, name="Canceled rivers")
    change = {"action": "cancel_plan", "reason": "Not needed."}
    await agent.acting_as("pat").call(
        "modify_plan", planId=canceled["planId"], modifications=[change]
    )
    text = (await browser.get("/")).text
    assert "Plan failed by ann: Budget exceeded." in section(text, "trouble")
    assert "Canceled rivers Canceled by pat: Not needed." in section(text, "finished")
    assert "Failed rivers" not in section(text, "finished")
    world.clock.advance(days=2)
    browser.cookies.delete("waybook_look")
    assert "Nothing is in trouble." in await read_section(browser, "trouble")


async def test_overview_marks_a_failed_job_that_has_no_retries_left(
    browser: Browser, world: OrgEnv
) -> None:
    run = await world.agent.run(name="Deep rivers")
    first = await world.agent.job(run)
    for _ in range(20):
        reply = await world.agent.fail_job(first, "Timeout.", retryable=True)
        if reply.get("status") != "retrying" and reply.get("jobStatus") != "retrying":
            break
        world.clock.advance(hours=2)
        first = await world.agent.job(run)
    assert "out of retries after attempt" in await read_section(browser, "trouble")


async def test_running_section_lists_plan_and_run_with_holder(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step(title=f"Step {n}") for n in range(3)], name="Lakes")
    await agent.take(plan)
    run = await agent.run(name="Deep rivers")
    await agent.job(run)
    text = (await browser.get("/")).text
    running = section(text, "running")
    assert "Lakes plan · ann · Step 1, Step 0" in running
    assert "Deep rivers run · ann · Stage Scope" in running
    assert "Nothing is in trouble." in section(text, "trouble")
    await fail_step(agent, await agent.take(plan, another=True), "Closed.")
    text = (await browser.get("/")).text
    assert "Lakes" not in section(text, "running")
    assert "Lakes" in section(text, "trouble")


async def test_overview_lists_work_finished_since_the_last_visit(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    await agent.work_through(await agent.plan(1, name="Seas"))
    first = await read_section(browser, "finished")
    assert "Finished in the last 24 hours 1" in first
    world.clock.advance(minutes=10)
    await agent.work_through(await agent.plan(1, name="Lakes"))
    assert "Seas" in await read_section(browser, "finished")
    world.clock.advance(hours=2)
    run = await agent.run(name="Deep rivers")
    await agent.call("cancel_run", runId=run["runId"], reason="Enough.")
    later = await read_section(browser, "finished")
    assert "You last looked 2 h ago" in later
    assert "Canceled by ann: Enough." in later
    assert "Seas" not in later
    assert "Deep rivers" in await read_section(browser, "finished")
    world.clock.advance(days=30)
    away = await read_section(browser, "finished")
    assert "Finished in the last 14 days" in away
    assert "Nothing finished." in away


@pytest.mark.parametrize(
    "value", ["", "x", "1.2.3", "9" * 30 + ".1", "-1.5", "0.0", "9999999999.9999999999"]
)
async def test_overview_accepts_any_value_of_the_last_visit_cookie(
    browser: Browser, agent: AgentClient, value: str
) -> None:
    await agent.work_through(await agent.plan(1, name="Seas"))
    browser.cookies.set("waybook_look", value, domain="localhost.local", path="/")
    assert (await browser.get("/")).status_code == 200


async def test_reassign_form_makes_the_stalled_step_pending(
    browser: Browser, world: OrgEnv
) -> None:
    plan = await make_stalled_plan(world, "Stalled rivers")
    fields = {"work": f"plan:{plan['planId']}:1:{plan['stepIds'][0]}", "reassign": "1"}
    reply = await rescue(browser, fields)
    assert (reply.status_code, reply.headers["location"]) == (303, "/?done=reassign")
    assert "Nothing is in trouble." in await read_section(browser, "trouble")
    taken = await world.agent.acting_as("bob").take(plan)
    assert (taken["stepId"], taken["attempt"]) == (plan["stepIds"][0], 2)
    # The form contains plan revision 1, and user bob claimed the step after this revision. The
    # server must refuse the form, instead of taking the step from bob.
    reply = await rescue(browser, fields)
    assert reply.status_code == 409
    assert "The plan is at revision 2, but you expected 1" in visible_text(reply.text)


async def test_retry_form_retries_failed_jobs_only_once(
    browser: Browser, agent: AgentClient
) -> None:
    run = await agent.run(name="Deep rivers")
    job = await fail_job(agent, run)
    fields = {"work": f"run:{run['runId']}:scope", "key": "k"}
    for _ in range(2):
        reply = await rescue(browser, fields)
        assert (reply.status_code, reply.headers["location"]) == (303, "/?done=retry")
    again = await agent.job(run)
    assert again["stepKey"] == job["stepKey"]
    statement = audit.SQL["entries"](subject_id=run["runId"], since=0, most=1000)
    rows = await agent.dispatcher.services.database.read_org(agent.org_id, statement)
    retries = [e for e in rows[0] if "retry_failed" in str(e.details)]
    assert len(retries) == 1


@pytest.mark.parametrize("kind", ["plans", "runs"])
async def test_cancel_page_asks_for_a_reason_and_cancels(
    browser: Browser, agent: AgentClient, kind: str
) -> None:
    made = await (agent.plan(2, name="Rivers") if kind == "plans" else agent.run(name="Rivers"))
    address = f"/{kind}/{made['planId' if kind == 'plans' else 'runId']}/cancel"
    page = (await browser.get(f"{address}?back=/")).text
    assert "This cannot be undone." in page
    fields = {"revision": "1", "back": "/"} if kind == "plans" else {"back": "/"}
    refused = await send(browser, address, reason=" ", **fields)
    assert refused.status_code == 400
    assert "Enter a reason. It is stored in the audit." in refused.text
    assert "Nothing is running." not in await read_section(browser, "running")
    reply = await send(browser, address, reason="Not needed.", **fields)
    assert (reply.status_code, reply.headers["location"]) == (303, "/?done=cancel")
    assert "Canceled by pat: Not needed." in await read_section(browser, "finished")
    assert "cannot be canceled" in (await browser.get(address)).text
    late = await browser.post(
        address, data={"token": browser.cookies[COOKIE], "reason": "Again.", **fields}
    )
    assert late.is_client_error


async def test_front_page_summarizes_activity_since_the_last_visit(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    reviewed = await agent.take(await agent.plan(1, name="Reviewed"))
    await agent.review(reviewed)
    assert "While you were away" not in (await browser.get("/")).text
    world.clock.advance(minutes=45)
    await agent.work_through(await agent.plan(2, name="Done"))
    failing = await agent.take(await agent.plan(1, name="Failing"))
    await fail_step(agent, failing, "No source.")
    deciding = agent.acting_as("rita")
    await deciding.decide(reviewed)
    text = (await browser.get("/")).text
    match = re.search(r'<section[^>]*"away-head".*?</section>', text, re.DOTALL)
    assert match, text
    shown = visible_text(match[0])
    assert "2 steps completed in 1 plan" in shown
    assert "1 review decided : rita approved" in shown
    assert "1 failure" in shown
    for href in re.findall(r'href="([^"]+)"', match[0]):
        assert (await browser.get(href.replace("&amp;", "&"))).status_code == 200, href


async def test_front_page_has_no_summary_after_short_or_uneventful_absence(
    browser: Browser, world: OrgEnv
) -> None:
    await world.agent.plan(2)
    await browser.get("/")
    world.clock.advance(minutes=10)
    await world.agent.work_through(await world.agent.plan(1))
    assert "While you were away" not in (await browser.get("/")).text
    world.clock.advance(hours=2)
    assert "While you were away" not in (await browser.get("/")).text


async def test_recent_work_and_expected_time_are_shown_on_pages(
    browser: Browser, world: OrgEnv
) -> None:
    agent = world.agent
    plans = [await agent.plan(1, name=f"Short {n}") for n in range(5)]
    for plan in (*plans, long := await agent.plan(3, name="Long")):
        taken = await agent.take(plan)
        world.clock.advance(minutes=10)
        await agent.submit(taken, usage={"inputTokens": 9, "costUsd": 0.25})
    await fail_step(agent, await agent.take(await agent.plan(1)), "The source is gone.")
    await agent.acting_as("ben").take(long)
    page = (await browser.get("/")).text
    assert "Done in 24 hours 6 steps and jobs" in visible_text(page)
    assert "Cost in 24 hours $1.50" in visible_text(page)
    hours = re.findall(r"(\d\d):00: (\d+) done, (\d+) failed", page)
    assert len({hour for hour, *_ in hours}) == 24
    counts = dict.fromkeys(hours)
    assert sum(int(done) for _, done, _ in counts) == 6
    assert sum(int(failed) for *_, failed in counts) == 1
    assert "ben" in section(page, "at-work")
    listed = visible_text((await browser.get("/plans")).text)
    assert re.search(r"Long 1 of 3 .* 20 min \$0\.25", listed), listed
