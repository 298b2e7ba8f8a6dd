"""Pages of large plans and runs read no more of the database than those of small ones."""

from random import Random

import psycopg
import pytest

from auth_env import at
from org_env import AgentClient, Body, OrgEnv, make_step
from sent_messages import count_blocks
from transport.page_client import Browser, main_text
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.store import text_search

#: Blocks that a page of much work may read in addition: deeper indexes, and a few longer rows.
MAX_MORE_BLOCKS = 60
#: Results whose texts cannot be compressed: each of them fills about 25 blocks.
LONG = [Random(number).randbytes(100_000).hex() for number in range(8)]  # noqa: S311 - no secret


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_blocks(monkeypatch)


async def blocks_of(browser: Browser, blocks: list[int], path: str) -> int:
    """Return the fewest blocks that a page reads; a new connection also reads catalogs."""
    counts = []
    for _ in range(5):
        blocks.clear()
        assert (await browser.get(path)).status_code == 200
        counts.append(sum(blocks))
    return min(counts)


async def make_worked_plan(agent: AgentClient, results: list[str]) -> tuple[Body, str]:
    """Create a plan with these results, and add a step to it; return it with a step's id."""
    steps = [make_step(f"Read source {number}.") for number in range(len(results) + 1)]
    plan, taken = await agent.plan(steps), Body()
    for result in results:
        taken = await agent.take(plan)
        await agent.submit(taken, result)
    await agent.modify(plan, "add_steps", steps=[make_step(results[0][:6_000])])
    return plan, taken["stepId"]


async def test_plan_and_step_pages_do_not_read_the_results_of_all_steps(
    agent: AgentClient, browser: Browser, blocks: list[int]
) -> None:
    small, large = [await make_worked_plan(agent, texts) for texts in (["Nile"] * 8, LONG)]
    for page in ("/plans/{}", "/plans/{}/steps/{}"):
        counts = [
            await blocks_of(browser, blocks, page.format(plan["planId"], step))
            for plan, step in (small, large)
        ]
        # The page of a step shows the step's own result.
        assert counts[1] <= counts[0] + MAX_MORE_BLOCKS, page


async def test_shortened_audit_details_show_the_same_pages(world: OrgEnv, browser: Browser) -> None:
    agent = world.agent
    plan, step = await make_worked_plan(agent, LONG[:2])
    taken = await agent.take(plan)
    await agent.review(taken)
    await agent.decide(plan, "modify", feedback="Too long. " * 800)
    paths = [f"/plans/{plan['planId']}", f"/plans/{plan['planId']}/steps/{step}", "/agents/ann"]
    shortened = [main_text(await browser.get(path)) for path in paths]
    with psycopg.connect(world.place.admin_dsn, autocommit=True) as admin:
        detail = await read_plan_detail(at(agent), plan["planId"], PlanInclude.ADDED)
        assert detail.added == 1
        query = "update audit_entry set brief = null where org_id = %s and brief is not null"
        assert admin.execute(query, [agent.org_id]).rowcount == 4
    assert [main_text(await browser.get(path)) for path in paths] == shortened
    detail = await read_plan_detail(at(agent), plan["planId"], PlanInclude.ADDED)
    assert detail.added == 1


async def test_search_without_leakproof_functions_finds_older_names_by_word(
    world: OrgEnv, browser: Browser, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = world.agent
    if world.place.server.is_embedded:
        pytest.skip("the search functions of this server are leakproof")
    monkeypatch.setattr(text_search, "MAX_UNINDEXED_ROWS", 2)
    await agent.plan(1, name="Glacial lakes")
    await agent.run(name="Glacial streams")
    counts = []
    for _ in range(2):
        for number in range(5):
            await agent.plan(1, name=f"Rivers {number}")
            await agent.run(name=f"Deltas {number}")
        counts.append(await blocks_of(browser, blocks, "/search?q=glac"))
        page = main_text(await browser.get("/search?q=glac"))
        assert "Glacial lakes" in page
        assert "Glacial streams" in page
    assert counts[1] <= counts[0] + MAX_MORE_BLOCKS
