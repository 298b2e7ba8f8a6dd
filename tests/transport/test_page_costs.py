"""Queries of pages: their number does not depend on the amount of data, and each uses an index."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

import psycopg
import pytest

from org_env import AgentClient, OrgEnv
from run_documents import render_all
from sent_messages import count_messages
from statements import prepared
from transport.page_client import Browser
from waybook.app.queries.work_list import ListOrder, RunFilter, runs_statement
from waybook.app.request.request_context import RequestContext
from waybook.store import agents, audit, calls
from waybook.store.driver.queries import LAST_UUID, Statement, Value, new_id
from waybook.store.plans import details

#: Run these tests on PostgreSQL 15 too, because different versions choose different query plans.
pytestmark = pytest.mark.every_server

NEVER = "infinity"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_messages(monkeypatch)


async def make_little_more(agent: AgentClient) -> tuple[str, str]:
    """Create one more record of every kind; return the ids of a run and a plan."""
    run = await agent.run()
    await agent.work_off(run)
    await render_all(agent)
    plan = await agent.plan(2)
    await agent.work_through(plan)
    named = {"mediaType": "text/plain", "title": "Answer", "content": "The Nile."}
    await agent.call("store_research_output", planId=plan["planId"], **named)
    return run["runId"], plan["planId"]


async def test_page_sends_the_same_number_of_queries_for_more_data(
    browser: Browser, agent: AgentClient, sent: list[int]
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
        "/timeline",
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

    # The first request for a page also loads data into caches.
    await costs()
    little = await costs()
    for _ in range(5):
        await make_little_more(agent)
    assert await costs() == little
    # The health page also queries pending notifications, and passages that are left out of the
    # search index. Pages with audit entries and lanes also query the names in them. The cost page
    # queries the time first, because its period depends on it.
    listed = dict.fromkeys(("/audit", f"/audit?subject={plan_id}"), 3)
    lanes = {"/agents": 4, "/timeline": 4, "/agents/ann": 5}
    more = {"/health": 4, "/cost": 3, **lanes, **listed}
    assert {page: len(counts) for page, counts in little.items()} == {
        page: more.get(page, 1 if "export" in page else 2) for page in pages
    }


#: Parameters for the first page of the audit, without a filter.
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
    """Return the query plan that PostgreSQL chooses if only index scans are allowed.

    Otherwise, PostgreSQL would scan and sort the tables, because they have only a few rows here.
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


# Tests of queries about agents.


#: SQL that inserts 4,000 agents, a year of work by 200 of them, and 2,000 plans.
ROWS = """
insert into agent (org_id, name, session, clients, first_seen_at, last_seen_at)
select app_org(), 'agent-' || n % 20, 's' || n, '{m}', app_now() - n * interval '2 hours',
       app_now() - n * interval '2 hours'
  from generate_series(1, 4000) n;
insert into audit_entry (org_id, subject_id, subject, seq, at, event, actor, channel, session,
                         details, hash)
select app_org(), gen_random_uuid(), 'plan', 1, app_now() - n * interval '40 minutes',
       'step_completed', 'agent-' || n % 20, 'mcp', 's' || n % 200, '{}', ''
  from generate_series(1, 10000) n;
insert into usage (org_id, id, attempt, cost_micros, at, by, session)
select app_org(), gen_random_uuid(), 1, n, app_now() - n * interval '40 minutes',
       'agent-' || n % 20, 's' || n % 200
  from generate_series(1, 10000) n;
insert into plan (org_id, id, name, status, revision, audit_seq, audit_hash, updated_at,
                  completed_at)
select app_org(), gen_random_uuid(), 'p' || n,
       case when n % 20 > 0 then 'completed' else 'executing' end, 1, 1, '', app_now(),
       case when n % 20 > 0 then app_now() end
  from generate_series(1, 2000) n;
insert into plan_step (org_id, id, plan_id, step_order, step_type, status, attempt)
select p.org_id, gen_random_uuid(), p.id, n, 'search', 'pending', 1
  from plan p, generate_series(1, 5) n
 where p.org_id = app_org();
analyze agent, audit_entry, usage, plan, plan_step;
"""
#: SQL that inserts 600 plans of five steps, on which no agent has worked.
UNSTARTED = """
insert into plan (org_id, id, name, status, revision, audit_seq, audit_hash, updated_at)
select app_org(), gen_random_uuid(), 'u' || n, 'planning', 1, 1, '', app_now()
  from generate_series(1, 600) n;
insert into plan_step (org_id, id, plan_id, step_order, step_type, status, attempt)
select p.org_id, gen_random_uuid(), p.id, n, 'search', 'pending', 1
  from plan p, generate_series(1, 5) n
 where p.org_id = app_org() and p.status = 'planning';
analyze plan, plan_step;
"""
AGENT = {"name": "agent-1", "session": "s1"}
PERIOD: dict[str, str | int] = {
    "since": "-infinity",
    "at": "infinity",
    "subject_id": LAST_UUID,
    "seq": 1,
}
AGENT_ENTRIES = "audit_entry_default_org_id_actor_session_at_idx"
AGENT_USAGE = "usage_agent"
PAGE = agents.SQL["agents_page"](at="infinity", name="", session="", most=51, counted=100)
START = datetime(2030, 1, 1, tzinfo=UTC)
BY_TIME, BY_AGENT, UNREPORTED = agents.cost_statements(START, 50, None, "day", "model")
#: Queries about agents, each with the indexes that it must use.
AGENT_QUERIES = {
    "agents_page": (PAGE, ("agent_seen", AGENT_ENTRIES, AGENT_USAGE)),
    "agent": (
        agents.SQL["agent"](**AGENT, counted=100),
        ("agent_pkey", AGENT_ENTRIES, AGENT_USAGE),
    ),
    "agent_entries": (audit.SQL["agent_entries"](**AGENT, **PERIOD, most=51), (AGENT_ENTRIES,)),
    "agent_counts": (
        agents.SQL["agent_counts"](**AGENT, since="-infinity", until="infinity", counted=100),
        (AGENT_ENTRIES,),
    ),
    "audit_page_of_agent": (
        audit.SQL["page_of_agent"](
            actor="agent-1",
            session="s1",
            **PERIOD,
            event=None,
            channel=None,
            members=False,
            most=51,
        ),
        (AGENT_ENTRIES,),
    ),
    "names": (agents.names_statement([new_id()]), ("plan_pkey", "plan_step_pkey")),
    "held_steps": (agents.held_statements()[0], ("plan_open_activity", "plan_step_place")),
    "usage_by_time": (BY_TIME, ("usage_time",)),
    "spans": (agents.SQL["spans"](since=START, name=None, session=None, most=100), ("at_idx",)),
    "agent_days": (agents.SQL["agent_days"](most=100), ("at_idx",)),
    "usage_by_agent": (BY_AGENT, ("usage_time",)),
    "results_without_usage": (UNREPORTED, ("at_idx",)),
}


@pytest.fixture
def crowded(world: OrgEnv) -> OrgEnv:
    world.is_sound = False
    with psycopg.connect(world.place.owner_dsn) as owner:
        owner.execute("select set_config('app.org_id', %s, true)", [str(world.agent.org_id)])
        owner.execute(ROWS.encode())
    return world


def explain(world: OrgEnv, statement: Statement, *, options: str = "") -> str:
    """Return PostgreSQL's query plan for the server's database role, without sequential scans.

    The table has only rows of one org, so PostgreSQL might otherwise scan the whole table.
    """
    with psycopg.connect(world.place.app_dsn, autocommit=True) as connection:
        if world.place.server.role:
            connection.execute(f"set role {world.place.server.role}".encode())
        connection.execute("select set_config('app.org_id', %s, false)", [str(world.agent.org_id)])
        connection.execute("set enable_seqscan = off")
        rows = connection.execute(
            f"explain {options} {prepared(connection, statement)}".encode()
        ).fetchall()
    return "\n".join(row[0] for row in rows)


def index_conditions(plan: str, index: str) -> list[str]:
    """Return the condition of each scan of this index in a query plan."""
    return re.findall(rf" {index} on .*\n\s+Index Cond: (.*)", plan)


async def test_agent_and_cost_queries_use_indexes_that_include_the_session(crowded: OrgEnv) -> None:
    plans = {name: explain(crowded, statement) for name, (statement, _) in AGENT_QUERIES.items()}
    missing = {
        (name, index): plans[name]
        for name, (_, indexes) in AGENT_QUERIES.items()
        for index in indexes
        if index not in plans[name]
    }
    assert missing == {}, "\n\n".join(f"{key}\n{plan}" for key, plan in missing.items())
    for name, (_, indexes) in AGENT_QUERIES.items():
        for index in {AGENT_ENTRIES, AGENT_USAGE}.intersection(indexes):
            conditions = index_conditions(plans[name], index)
            assert conditions, (name, index)
            assert all("session IS NULL" in each for each in conditions), plans[name]


async def test_query_for_claimed_steps_reads_only_steps_of_started_plans(crowded: OrgEnv) -> None:
    """Only the old plan has a claimed step; the steps of 600 newer plans must not be read."""
    plan = await crowded.agent.plan(3, name="Old")
    taken = await crowded.agent.take(plan)
    with psycopg.connect(crowded.place.owner_dsn) as owner:
        owner.execute("select set_config('app.org_id', %s, true)", [str(crowded.agent.org_id)])
        owner.execute(UNSTARTED.encode())
    statement = agents.held_statements()[0]
    shown = explain(crowded, statement, options="(analyze, costs off, timing off)")
    loops = re.search(r"plan_step s.*?loops=(\d+)", shown, re.DOTALL)
    assert loops, shown
    # The steps of this plan and of the 100 other started plans are read.
    assert int(loops[1]) <= 101, shown
    ctx = RequestContext(services=crowded.dispatcher.services, caller=crowded.agent.caller)
    (held,) = (await ctx.read(statement))[0]
    assert held.item_id == taken["stepId"]
