"""A page needs few database queries for any amount of data, and each query uses an index."""

from collections.abc import Mapping

import httpx2
import psycopg
import pytest

from org_env import AgentClient, OrgEnv
from run_documents import render_all
from sent_messages import count_messages
from statements import prepared
from waybook.app.queries.work_list import ListOrder, RunFilter, runs_statement
from waybook.store import audit, calls
from waybook.store.driver.queries import LAST_UUID, Statement, Value
from waybook.store.plans import details

#: Run these tests on PostgreSQL 15 too, because query plans differ between server versions.
pytestmark = pytest.mark.every_server

NEVER = "infinity"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_messages(monkeypatch)


async def make_little_more(agent: AgentClient) -> tuple[str, str]:
    """Create one more record of every kind; return the ids of the run and the plan."""
    run = await agent.run()
    await agent.work_off(run)
    await render_all(agent)
    plan = await agent.plan(2)
    await agent.work_through(plan)
    named = {"mediaType": "text/plain", "title": "Answer", "content": "The Nile."}
    await agent.call("store_research_output", planId=plan["planId"], **named)
    return run["runId"], plan["planId"]


async def test_page_query_count_is_independent_of_data_volume(
    browser: httpx2.AsyncClient, agent: AgentClient, sent: list[int]
) -> None:
    run_id, plan_id = await make_little_more(agent)
    pages = (
        "/",
        "/plans",
        "/runs",
        f"/runs/{run_id}",
        f"/runs/{run_id}/export.svg",
        "/dags",
        "/dags/deep-research",
        "/outputs",
        f"/plans/{plan_id}/outputs",
        "/audit",
        f"/audit?subject={plan_id}",
        "/agents",
        "/agents/ann",
        "/cost",
        "/calls",
        "/health",
        "/tokens",
    )

    async def costs() -> dict[str, list[int]]:
        counts_by_page = {}
        for page in pages:
            sent.clear()
            assert (await browser.get(page)).status_code == 200
            counts_by_page[page] = sent.copy()
        return counts_by_page

    # The first request also loads data that is then cached: definitions and server capabilities.
    await costs()
    little = await costs()
    for _ in range(5):
        await make_little_more(agent)
    assert await costs() == little
    # The health page has additional queries for pending notifications and for quarantined passages.
    # Pages with audit entries have one more query, for the names that the entries refer to.
    listed = dict.fromkeys(("/audit", f"/audit?subject={plan_id}"), 3)
    more = {"/health": 4, "/agents/ann": 3, **listed}
    assert {page: len(counts) for page, counts in little.items()} == {
        page: more.get(page, 1 if "export" in page else 2) for page in pages
    }


#: Parameters of the first page of the audit without filters.
ALL_ENTRIES: Mapping[str, Value] = {
    "since": "-infinity",
    "at": NEVER,
    "subject_id": LAST_UUID,
    "seq": 1,
    **dict.fromkeys(("event", "actor", "channel", "session")),
    "members": False,
    "most": 51,
}
QUERIES = {
    "runs_page": (runs_statement(RunFilter(order=ListOrder.CREATION), 26), "run_pkey"),
    "runs_page_of": (
        runs_statement(RunFilter(state="open", text="a", order=ListOrder.CREATION), 26),
        "run_pkey",
    ),
    "audit_page": (audit.SQL["page"](**ALL_ENTRIES), "at_idx"),
    "audit_page_of": (audit.SQL["page_of"](**ALL_ENTRIES), "audit_entry_default_pkey"),
    "calls_by_tool": (
        calls.SQL["calls_by_tool"](seconds=3_600, most=100),
        "mcp_tool_call_log_default_pkey",
    ),
    "last_errors": (
        calls.SQL["last_errors"](seconds=3_600, most=20),
        "mcp_tool_call_log_default_pkey",
    ),
    "latest_outputs": (details.latest_statement((NEVER, LAST_UUID), 26), "artifact_time"),
}


@pytest.mark.parametrize("name", QUERIES)
async def test_page_query_uses_the_intended_index(
    world: OrgEnv, agent: AgentClient, name: str
) -> None:
    statement, index = QUERIES[name]
    await make_little_more(agent)
    assert index in await explained(world, statement)


async def explained(world: OrgEnv, statement: Statement) -> str:
    """Return the query plan of an SQL statement, with sequential scans disabled.

    Sorting is disabled too if an index provides the order. With few rows, sorting costs almost
    nothing, so the query plan would differ from that for many rows.
    """
    with psycopg.connect(world.place.app_dsn, autocommit=True) as connection:
        if world.place.server.role:
            connection.execute(f"set role {world.place.server.role}".encode())
        connection.execute("select set_config('app.org_id', %s, false)", [str(world.agent.org_id)])
        connection.execute("set enable_seqscan = off")
        connection.execute("set enable_bitmapscan = off")
        connection.execute("set enable_sort = off")
        rows = connection.execute(f"explain {prepared(connection, statement)}".encode()).fetchall()
    return "\n".join(row[0] for row in rows)
