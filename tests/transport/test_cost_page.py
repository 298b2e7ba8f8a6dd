"""Cost page: totals by day, plan or run, agent and model, and results without usage."""

import re

import httpx2

from org_env import AgentClient, OrgEnv
from transport.page_client import main_text
from waybook.app.queries.usage import count_costs
from waybook.app.request.request_context import RequestContext


def usage(cost: float, model: str) -> dict[str, object]:
    return {"inputTokens": 900, "outputTokens": 100, "costUsd": cost, "model": model}


async def make_costs(world: OrgEnv) -> tuple[str, str]:
    """Report usage of two agents on two days; return the ids of the plan and the run used."""
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
    world: OrgEnv, browser: httpx2.AsyncClient
) -> None:
    plan_id, run_id = await make_costs(world)
    page = await browser.get("/cost")
    assert "$1.75 3,000 tokens 3 results with usage" in main_text(page)
    assert rows(page, "days") == ["2030-01-03 $1.00 900 100 1", "2030-01-01 $0.75 1,800 200 2"]
    assert rows(page, "work") == ["Lighthouse run $1.00 900 100 1", "Rivers plan $0.75 1,800 200 2"]
    assert rows(page, "agents") == ["ann b $1.25 1,800 200 2", "ann a $0.50 900 100 1"]
    assert rows(page, "models") == ["opus $1.50 1,800 200 2", "gpt $0.25 900 100 1"]
    for link in (f"/plans/{plan_id}", f"/runs/{run_id}", "/agents/ann?session=b"):
        assert f'href="{link}"' in page.text
    assert len(re.findall("<rect ", page.text)) == 2
    assert "1 of 4 completed steps and jobs reported no usage" in main_text(page)


async def test_cost_page_without_usage_shows_empty_tables(
    world: OrgEnv, browser: httpx2.AsyncClient
) -> None:
    world.other_org_may_change = True
    theirs = world.other_org
    await theirs.submit(await theirs.take(await theirs.plan(1)), usage=usage(9, "theirs"))
    page = await browser.get("/cost")
    assert page.text.count("No usage reported.") == 4
    assert "theirs" not in page.text
    assert 'id="unreported"' not in page.text


async def test_result_text_that_mentions_usage_is_not_counted(agent: AgentClient) -> None:
    plan = await agent.plan(1)
    await agent.submit(await agent.take(plan), '"entity":"usage"')
    call = RequestContext(services=agent.dispatcher.services, caller=agent.caller)
    costs = await count_costs(call)
    assert (costs.completed, costs.unreported) == (1, 1)
