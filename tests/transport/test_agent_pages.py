"""Dashboard pages about agents and costs, and links to agents on the audit page."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from org_env import AgentClient, Body, OrgEnv
from transport.page_client import Browser, main_text, send
from waybook.app.queries.agents import AgentKey, list_agents, read_agent
from waybook.app.queries.usage import CostFilter, count_costs
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel

USAGE = {"inputTokens": 900, "outputTokens": 100, "costUsd": 0.25, "model": "m"}


def with_client(agent: AgentClient, client: str | None, user: str = "ann") -> AgentClient:
    """Return an agent that acts as `user`, and whose MCP client has the name `client`."""
    return AgentClient(agent.dispatcher, replace(agent.caller, client=client, user=user))


def reading(agent: AgentClient) -> RequestContext:
    return RequestContext(services=agent.dispatcher.services, caller=agent.caller)


def table(page: httpx2.Response) -> list[str]:
    """Return the text of each row in the page's tables, without header rows and charts."""
    text = re.sub(r"<svg.*?</svg>|<table[^>]*spans.*?</table>", " ", page.text.replace("\n", " "))
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    texts = [re.sub(r"<[^>]+>", " ", row) for row in rows if "<td" in row]
    return [re.sub(r"\s+", " ", text).strip() for text in texts]


async def make_work(world: OrgEnv) -> Body:
    """Let two sessions of a user work on a plan; one of the sessions works on two days."""
    agent = world.agent
    plan = await agent.plan([{"stepType": "search", "instructions": "x", "title": "Survey"}] * 4)
    coder = with_client(agent, "claude-code")
    await coder.submit(await coder.take(plan, sessionId="a"), sessionId="a", usage=USAGE)
    world.clock.advance(days=1)
    taken = await coder.take(plan, sessionId="a")
    change = {"action": "fail_step", "stepId": taken["stepId"], "reason": "No access."}
    await coder.call("modify_plan", planId=plan["planId"], modifications=[change], sessionId="a")
    await with_client(agent, "cursor").take(plan, sessionId="b", another=True)
    await world.dispatcher.calls.flush()
    return plan


async def test_agents_page_lists_session_client_work_and_cost(
    world: OrgEnv, browser: Browser
) -> None:
    await make_work(world)
    first, second, third = table(await browser.get("/agents"))
    latest = {row.partition(" of ann ")[0]: row for row in (first, second)}
    assert latest["claude-code · a"] == "claude-code · a of ann 1 1 $0.25 just now"
    assert "cursor · b of ann Survey 0" in latest["cursor · b"]
    assert "ann 0" in third


async def test_pages_name_agents_by_client_and_session(world: OrgEnv, browser: Browser) -> None:
    plan = await make_work(world)
    page = f"/plans/{plan['planId']}"
    steps = [f"{page}/steps/{step}" for step in plan["stepIds"]]
    for path, name in (
        (page, "cursor · b"),
        (f"{page}/history", "cursor · b"),
        (steps[0], "claude-code · a"),
        (steps[2], "held by cursor · b"),
        ("/audit", "claude-code · a"),
        ("/cost", "claude-code · a"),
        ("/timeline", "claude-code · a"),
        ("/agents/ann?session=a", "claude-code · a of ann"),
    ):
        text = re.sub(r"\s+", " ", main_text(await browser.get(path)))
        assert name in text, (path, text)
    report = (await browser.get(f"{page}/export.md")).text
    assert ": cursor · b started" in report


async def test_agent_with_a_new_client_gets_a_new_name(world: OrgEnv, browser: Browser) -> None:
    agent = world.agent
    plan = await agent.plan(1)
    await with_client(agent, "codex").take(plan, sessionId="s")
    await world.dispatcher.calls.flush()
    assert "codex · s" in main_text(await browser.get(f"/plans/{plan['planId']}"))
    await with_client(agent, "cursor").call("get_plan_status", planId=plan["planId"], sessionId="s")
    await world.dispatcher.calls.flush()
    assert "cursor · s" in main_text(await browser.get(f"/plans/{plan['planId']}"))


async def test_agents_page_omits_dashboard_users_and_other_orgs(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    await agent.acting_as("eve", Channel.DASHBOARD).plan(1)
    await world.dispatcher.calls.flush()
    assert "No agents yet." in main_text(await browser.get("/agents"))
    world.other_org_may_change = True
    await with_client(world.other_org, "theirs", "mallory").plan(1)
    await world.dispatcher.calls.flush()
    assert "mallory" not in (await browser.get("/agents")).text
    assert (await browser.get("/agents/mallory")).status_code == 404


async def test_agents_page_omits_agents_not_seen_for_30_days(
    world: OrgEnv, browser: Browser
) -> None:
    await make_work(world)
    world.clock.advance(days=31)
    assert "No agents yet." in main_text(await browser.get("/agents"))
    assert (await browser.get("/agents/ann?session=a")).status_code == 200


async def test_paginated_agent_list_contains_every_agent_exactly_once(
    world: OrgEnv, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    for number in range(7):
        await agent.call("get_plan_status", planId=plan["planId"], sessionId=f"s~{number}/%")
        await world.dispatcher.calls.flush()
        world.clock.advance(minutes=number % 2)
    seen: list[AgentKey] = []
    cursor = None
    while True:
        agents, _, cursor, _ = await list_agents(reading(agent), cursor, 3)
        seen += [each.key for each in agents]
        if cursor is None:
            break
    assert sorted(seen) == [("ann", ""), *(("ann", f"s~{number}/%") for number in range(7))]


async def test_agent_page_for_a_day_omits_changes_on_other_days(
    world: OrgEnv, browser: Browser
) -> None:
    plan = await make_work(world)
    every = table(await browser.get("/agents/ann?session=a"))
    assert [re.sub(r"^\d\d:\d\d (\S )?", "", row) for row in every] == [
        "marked a step as failed No access. step 2: Survey Rivers",
        "started a step step 2: Survey Rivers",
        "completed a step step 1: Survey Rivers",
        "started a step step 1: Survey Rivers",
    ]
    page = await browser.get("/agents/ann?session=a&day=2030-01-01")
    assert len(table(page)) == 2
    text = main_text(page)
    assert "1 started 1 completed 0 failed 0 reviews requested" in text
    assert "Tuesday, January 1, 2030" in text
    step = plan["stepIds"][0]
    assert f'href="/plans/{plan["planId"]}/steps/{step}"' in page.text
    yesterday = re.search(r'href="([^"]+)" aria-current="true">Yesterday', page.text)
    assert yesterday is not None
    assert yesterday[1] == "/agents/ann?session=a&amp;day=2030-01-01"
    empty = await browser.get("/agents/ann?session=a&day=2029-12-31")
    assert "No activity on this day." in main_text(empty)


async def test_agent_page_names_the_run_of_every_listed_job(
    browser: Browser, agent: AgentClient
) -> None:
    run = await agent.run("dialectic", name="Lighthouse")
    held = await agent.job(run, sessionId="w")
    page = await browser.get("/agents/ann?session=w")
    job = held["jobId"]
    assert f'href="/runs/{run["runId"]}/jobs/{job}"' in page.text
    (row,) = table(page)
    assert "claimed a job" in row
    assert "Lighthouse" in row
    assert f"{held['stepKey']} of Lighthouse, since" in main_text(page)


async def test_agent_page_omits_changes_made_by_user_on_the_dashboard(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(1)
    await agent.acting_as("ann", Channel.DASHBOARD).take(plan)
    assert [row.split(" ", 1)[1] for row in table(await browser.get("/agents/ann"))] == [
        "created the plan Rivers"
    ]


async def test_paginated_agent_page_lists_every_audit_entry_exactly_once(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waybook.app.queries.agents.PAGE_SIZE", 3)
    for _ in range(3):
        await agent.work_through(await agent.plan(2))
    key, cursor, seen = AgentKey("ann", ""), None, []
    while True:
        page = await read_agent(reading(agent), key, cursor=cursor)
        seen += [(entry.subject_id, entry.seq) for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == page.counts.entries == 15


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents?behind=x", 400),
        ("/agents?behind=2030-01-01,a%2500,b", 400),
        ("/agents/unknown", 404),
        ("/agents/ann?session=none", 404),
        ("/agents/ann?day=yesterday", 400),
        ("/agents/ann?day=9999-12-31", 400),
        ("/agents/ann?behind=1", 400),
        ("/agents/%00", 404),
    ],
)
async def test_agent_pages_refuse_invalid_urls(
    browser: Browser, agent: AgentClient, path: str, status: int
) -> None:
    await agent.plan(1)
    assert (await browser.get(path)).status_code == status


async def test_agent_page_opens_for_names_with_special_characters(
    browser: Browser, agent: AgentClient, world: OrgEnv
) -> None:
    odd = agent.acting_as("a/b ~ü?#<i>")
    plan = await odd.plan(1, sessionId="s/1&x=<b>")
    await odd.take(plan, sessionId="s/1&x=<b>")
    await world.dispatcher.calls.flush()
    links = re.findall(r'href="(/agents/[^"]+)"', (await browser.get("/agents")).text)
    pages = [await browser.get(link.replace("&amp;", "&")) for link in links]
    assert [page.status_code for page in pages] == [200] * len(links)
    assert any("started a step" in page.text for page in pages)
    assert not any("<b>" in page.text.partition("<h1>")[2].partition("</h1>")[0] for page in pages)


# Tests of agents on the audit page.


async def test_audit_page_links_plan_step_and_agent_by_name(
    world: OrgEnv, browser: Browser
) -> None:
    plan = await make_work(world)
    page = await browser.get("/audit", params={"event": "step_completed"})
    (row,) = table(page)
    assert "completed a step: step 1: Survey" in row
    assert "Rivers #" in row
    plan_id = plan["planId"]
    assert f'<a href="/plans/{plan_id}">Rivers</a>' in page.text
    assert f'/plans/{plan_id}/steps/{plan["stepIds"][0]}">step 1: Survey</a>' in page.text
    assert '<a href="/agents/ann?session=a">claude-code · a</a>' in page.text


async def test_audit_page_can_be_filtered_by_session_and_plan_name(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    await make_work(world)
    of_agent = await browser.get("/audit", params={"actor": "ann", "session": "b"})
    rows = table(of_agent)
    assert ["started a step" in row for row in rows] == [True, False]
    assert ["resumed in a new session" in row for row in rows] == [False, True]
    assert table(await browser.get("/audit", params={"session": "b"})) == rows
    await agent.plan(1, name="Mountains")
    assert len(table(await browser.get("/audit", params={"subject": "mountain"}))) == 1
    await agent.plan(1, name="Mountains of Asia")
    both = await browser.get("/audit", params={"subject": "mountain", "event": "plan_modified"})
    assert table(both) == ["No matching events."]
    links = re.findall(r'<a href="(/audit\?[^"]+)">(Mou[^<]+)</a>', both.text)
    assert {name for _, name in links} == {"Mountains", "Mountains of Asia"}
    chosen = await browser.get(links[0][0].replace("&amp;", "&"))
    assert len(table(chosen)) == 1


# Tests of the cost page.


def usage(cost: float, model: str) -> dict[str, object]:
    return {"inputTokens": 900, "outputTokens": 100, "costUsd": cost, "model": model}


async def make_costs(world: OrgEnv) -> tuple[str, str]:
    """Report the usage of two sessions on two days; return the ids of the plan and the run."""
    agent = world.agent
    plan, run = await agent.plan(4), await agent.run("dialectic", name="Lighthouse")
    await agent.submit(await agent.take(plan), sessionId="a", usage=usage(0.5, "opus"))
    await agent.submit(await agent.take(plan), sessionId="b", usage=usage(0.25, "gpt"))
    world.clock.advance(days=2)
    job = await agent.job(run, sessionId="b")
    await agent.submit_documents(job, usage=usage(1, "opus"), sessionId="b")
    await agent.submit(await agent.take(plan))
    return plan["planId"], run["runId"]


def rows(page: httpx2.Response, table: str) -> list[str]:
    (body,) = re.findall(rf'id="{table}">(.*?)</table>', page.text.replace("\n", " "))
    texts = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr>(.*?)</tr>", body)]
    return [re.sub(r"\s+", " ", text).strip() for text in texts[1:]]


async def test_cost_page_lists_totals_by_day_work_agent_and_model(
    world: OrgEnv, browser: Browser
) -> None:
    plan_id, run_id = await make_costs(world)
    page = await browser.get("/cost")
    text = main_text(page)
    for words in ("Cost $1.75", "Per result $0.58", "3 results with usage", "2,700 in, 300 out"):
        assert words in text
    assert rows(page, "times") == [
        "2030-01-03 opus $1.00 900 100 1",
        "2030-01-01 gpt $0.25 900 100 1",
        "2030-01-01 opus $0.50 900 100 1",
    ]
    assert rows(page, "work") == ["Lighthouse run 1,000 $1.00", "Rivers plan 2,000 $0.75"]
    assert rows(page, "agents") == ["b of ann $1.25", "a of ann $0.50"]
    assert rows(page, "models") == ["opus $1.50", "gpt $0.25"]
    for link in (f"/plans/{plan_id}", f"/runs/{run_id}", "/agents/ann?session=b"):
        assert f'href="{link}"' in page.text
    assert "1 of 4 completed steps and jobs reported no usage" in text


async def test_columns_of_cost_page_are_split_as_the_address_says(
    world: OrgEnv, browser: Browser
) -> None:
    await make_costs(world)
    for by, named in {
        "model": "Jan 1: $0.75 (opus $0.50, gpt $0.25)",
        "agent": "Jan 1: $0.75",
        "workflow": "Jan 1: $0.75",
    }.items():
        labels = columns_of(await browser.get("/cost", params={"by": by}))
        assert len(labels) == 30
        assert labels[-3] == named
        assert labels[-2] == "Jan 2: $0.00"
    assert rows(await browser.get("/cost?by=workflow"), "times") == [
        "2030-01-03 dialectic $1.00 900 100 1",
        "2030-01-01 plans $0.75 1,800 200 2",
    ]


def columns_of(page: httpx2.Response) -> list[str]:
    return re.findall(r'<[ag] class="pt"[^>]* aria-label="([^"]*)"', page.text)


async def test_cost_page_of_a_chosen_period_counts_no_other_days(
    world: OrgEnv, browser: Browser
) -> None:
    await make_costs(world)
    day = await browser.get("/cost?from=2030-01-03&to=2030-01-03")
    assert "Cost $1.00" in main_text(day)
    assert len(columns_of(day)) <= 24
    first = await browser.get("/cost?from=2030-01-01&to=2030-01-02")
    assert "Cost $0.75" in main_text(first)
    two = await browser.get("/cost?from=2030-01-02&to=2030-01-03")
    assert "$0.25 more than the period before" in main_text(two)
    hours = await browser.get("/cost?range=24h")
    assert len(columns_of(hours)) == 24
    assert len(columns_of(await browser.get("/cost?range=7d"))) == 7


async def test_cost_page_draws_the_budget_of_a_day(world: OrgEnv, browser: Browser) -> None:
    await make_costs(world)
    page = await browser.get("/cost?budget=2.50")
    assert 'class="limit"' in page.text
    assert "budget $2.50" in page.text
    assert 'class="limit"' not in (await browser.get("/cost")).text


async def test_cost_page_adds_up_budgets_of_plans_with_usage(
    browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(2, budget={"costUsd": 0.2})
    await agent.plan(1, budget={"costUsd": 5})
    await agent.submit(await agent.take(plan), usage=usage(0.5, "m"))
    assert "$0.50 of $0.20 1 plan, 1 over budget" in main_text(await browser.get("/cost"))


@pytest.mark.parametrize(
    "query",
    [
        *("range=1y", "by=x", "from=x", "to=0001-01-01", "from=9999-12-31", "budget=x"),
        *("budget=-1", "from=2030-01-05&to=2030-01-04", "from=1990-01-01"),
    ],
)
async def test_cost_page_and_export_refuse_invalid_periods(browser: Browser, query: str) -> None:
    assert (await browser.get(f"/cost?{query}")).status_code == 400
    if not query.startswith("budget"):
        assert (await browser.get(f"/cost.csv?{query}")).status_code == 400


async def test_cost_export_lists_every_part_as_csv(world: OrgEnv, browser: Browser) -> None:
    await make_costs(world)
    page = await browser.get("/cost")
    (link,) = {*re.findall(r'href="(/cost\.csv[^"]*)"', page.text)}
    reply = await browser.get(link)
    assert reply.headers["content-type"].startswith("text/csv")
    assert reply.text.splitlines() == [
        "start,model,costUsd,inputTokens,outputTokens,results",
        "2030-01-01T00:00:00+00:00,opus,0.5,900,100,1",
        "2030-01-01T00:00:00+00:00,gpt,0.25,900,100,1",
        "2030-01-03T00:00:00+00:00,opus,1.0,900,100,1",
    ]


async def test_cost_page_without_usage_shows_empty_tables(world: OrgEnv, browser: Browser) -> None:
    world.other_org_may_change = True
    theirs = world.other_org
    await theirs.submit(await theirs.take(await theirs.plan(1)), usage=usage(9, "theirs"))
    page = await browser.get("/cost")
    assert page.text.count("No usage reported.") == 4
    assert "theirs" not in page.text
    assert 'id="unreported"' not in page.text


# Tests of lanes and the timeline.


async def test_timeline_draws_done_failed_and_running_work_of_agents(
    world: OrgEnv, browser: Browser
) -> None:
    await make_work(world)
    world.clock.advance(minutes=10)
    page = await browser.get("/timeline")
    assert rows(page, "spans") == [
        "cursor · b step 3: Survey, Rivers running 2030-01-02 12:00 10 min",
        "claude-code · a step 2: Survey, Rivers failed 2030-01-02 12:00 0 s",
    ]
    assert 'data-s="run"' in page.text
    week = await browser.get("/timeline?range=7d")
    assert "step 1: Survey, Rivers" in week.text
    assert (await browser.get("/timeline?range=1y")).status_code == 400
    of_session = await browser.get("/agents/ann?session=b")
    assert [row.split(" Rivers")[0] for row in rows(of_session, "spans")] == [
        "cursor · b step 3: Survey,"
    ]


async def test_timeline_of_another_org_shows_no_work(world: OrgEnv, browser: Browser) -> None:
    world.other_org_may_change = True
    theirs = with_client(world.other_org, "theirs", "mallory")
    await theirs.take(await theirs.plan(1))
    await world.dispatcher.calls.flush()
    page = await browser.get("/timeline")
    assert "No agent worked in this period." in main_text(page)
    assert "mallory" not in page.text


async def test_steps_of_a_silent_agent_can_be_reassigned(
    world: OrgEnv, browser: Browser, agent: AgentClient
) -> None:
    plan = await agent.plan(2)
    await with_client(agent, "cursor").take(plan, sessionId="night")
    await world.dispatcher.calls.flush()
    assert "Reassign" not in (await browser.get("/agents")).text
    world.clock.advance(minutes=40)
    page = await browser.get("/agents")
    assert "night is silent for 40 min and holds 1 step or job." in main_text(page)
    (form,) = re.findall(r'action="/rescue">(.*?)</form>', page.text)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form)) | {"reassign": "1"}
    del fields["token"]
    assert (await send(browser, "/agents", at="/rescue", **fields)).status_code == 303
    assert "Reassign" not in (await browser.get("/agents")).text


async def test_result_text_that_mentions_usage_is_not_counted_as_usage(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    await agent.submit(await agent.take(plan), '"entity":"usage"')
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    now = datetime(2030, 1, 1, 1, tzinfo=UTC)
    costs = await count_costs(call, CostFilter(now - timedelta(days=1), None, now, "model"))
    assert (costs.completed, costs.unreported) == (1, 1)
