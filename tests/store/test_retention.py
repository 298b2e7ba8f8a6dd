"""Retention: deletes only expired rows, and creates partitions in advance."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import psycopg
import pytest

from database_dump import dump
from erasure_checks import LEFT, rows_of, slug_of, verdicts, verified
from foreign_records import make_link_of_run
from full_ids import full_id
from org_env import AgentClient, Body, OrgEnv, make_step
from postgres_servers import ServerDatabase
from waybook.app.operations.erasure import erase_org
from waybook.errors import Misconfigured
from waybook.store.maintenance import retention
from waybook.store.maintenance.owner import open_owner_session
from waybook.store.maintenance.retention import RetentionPolicy, apply_retention

FOR_EVER = RetentionPolicy(0, 0, 0)


@pytest.fixture
def admin(own_place: ServerDatabase) -> Iterator[psycopg.Connection]:
    with psycopg.connect(own_place.admin_dsn, autocommit=True) as connection:
        yield connection


def partitions(admin: psycopg.Connection) -> list[str]:
    cursor = admin.execute(
        """select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
            where i.inhparent = 'mcp_tool_call_log'::regclass order by 1"""
    )
    return [str(row[0]) for row in cursor.fetchall()]


def today(admin: psycopg.Connection) -> datetime:
    ((now,),) = admin.execute("select now()").fetchall()
    timestamp: datetime = now
    return timestamp.astimezone(UTC)


def named(moment: datetime) -> str:
    monday = moment - timedelta(days=moment.weekday())
    return f"mcp_tool_call_log_{monday:%Y%m%d}"


# Tests of the call log.


async def test_new_tool_calls_are_logged_in_the_partition_of_the_current_week(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    apply_retention(own_world.place.owner_dsn, FOR_EVER)
    now = today(admin)
    made = [named(now + timedelta(weeks=ahead)) for ahead in range(5)]
    assert set(partitions(admin)) == {"mcp_tool_call_log_default", *made}
    own_world.database.frozen_now = now
    for _ in range(2):
        await own_world.agent.refused("get_next_step", planId="nope")
    await own_world.dispatcher.calls.flush()
    held = admin.execute(
        "select tableoid::regclass::text, count(*) from mcp_tool_call_log group by 1"
    )
    assert held.fetchall() == [(named(today(admin)), 2)]


def test_log_partitions_have_the_same_row_level_security_as_the_table(
    own_place: ServerDatabase, admin: psycopg.Connection
) -> None:
    apply_retention(own_place.owner_dsn, FOR_EVER)
    guarded = admin.execute(
        """select c.relname from pg_class c join pg_policies p on p.tablename = c.relname
            where c.relrowsecurity and c.relforcerowsecurity and p.qual = '(org_id = app_org())'
              and p.with_check = p.qual and c.relacl is null"""
    ).fetchall()
    assert set(partitions(admin)) - {"mcp_tool_call_log_default"} <= {row[0] for row in guarded}


def test_log_partition_is_dropped_when_all_the_rows_are_expired(
    own_place: ServerDatabase, admin: psycopg.Connection
) -> None:
    now = today(admin)
    with open_owner_session(own_place.owner_dsn) as here:
        for weeks in range(1, 8):
            retention.create_partitions(here, now - timedelta(weeks=weeks))
    monday = (now - timedelta(days=now.weekday())).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    before = set(partitions(admin))
    gone = apply_retention(own_place.owner_dsn, RetentionPolicy(30, 0, 0))
    expected = {
        name
        for weeks in range(1, 8)
        if monday - timedelta(weeks=weeks - 1) <= now - timedelta(days=30)
        for name in [named(now - timedelta(weeks=weeks))]
    }
    assert before - set(partitions(admin)) == expected
    assert gone == {"partitions": len(expected)}
    assert 2 <= len(expected) <= 4


async def test_retention_deletes_only_expired_calls_in_default_partition(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    """No server was running to create the partition for the week of these logged calls."""
    own_world.database.frozen_now = today(admin)
    for agent in (own_world.agent, own_world.other_org):
        await agent.refused("get_next_step", planId="nope")
        await agent.refused("submit_step_result", stepId="nope", resultSummary=1)
    await own_world.dispatcher.calls.flush()
    assert partitions(admin) == ["mcp_tool_call_log_default"]
    admin.execute(
        "update mcp_tool_call_log set at = at - interval '40 days' where tool like 'get%'"
    )
    gone = apply_retention(own_world.place.owner_dsn, RetentionPolicy(30, 0, 0))
    assert gone == {"mcp_tool_call_log": 2}
    assert named(today(admin) + timedelta(weeks=1)) in partitions(admin)
    left = admin.execute("select tool, count(*) from mcp_tool_call_log group by 1").fetchall()
    assert left == [("submit_step_result", 2)]
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(30, 0, 0)) == {}


CALLS = """
insert into mcp_tool_call_log (org_id, at, id, tool, actor, channel, duration_ms, request_bytes,
                               response_bytes, is_error, replayed)
select o.org_id, now() + n * interval '1 hour', gen_random_uuid(), 'ping', 'ann', 'mcp', 1, 1, 1,
       false, false
  from org o, generate_series(-300, 300) n
"""


def test_retention_moves_logged_calls_from_default_to_weekly_partitions(
    own_world: OrgEnv, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls were logged before the partition of their week existed."""
    monkeypatch.setattr(retention, "MAX_ROWS", 50)
    admin.execute(CALLS)
    query = "select org_id, id, at from mcp_tool_call_log order by id"
    before = admin.execute(query).fetchall()
    apply_retention(own_world.place.owner_dsn, FOR_EVER)
    made = {named(today(admin) + timedelta(weeks=ahead)) for ahead in range(5)}
    assert set(partitions(admin)) == {"mcp_tool_call_log_default", *made}
    assert admin.execute(query).fetchall() == before
    left = admin.execute(
        "select count(*) from mcp_tool_call_log_default"
        " where at >= date_trunc('week', now() at time zone 'UTC') at time zone 'UTC'"
    )
    assert left.fetchall() == [(0,)]
    guarded = admin.execute(
        "select count(*) from pg_class where relname like 'mcp_tool_call_log_2%'"
        " and relkind = 'r' and relrowsecurity and relforcerowsecurity"
    )
    assert guarded.fetchall() == [(len(made),)]


def test_week_with_too_many_logged_calls_stays_in_the_default_partition(
    own_world: OrgEnv, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_MOVED_ROWS", 5)
    admin.execute(CALLS)
    apply_retention(own_world.place.owner_dsn, FOR_EVER)
    assert named(today(admin)) not in partitions(admin)
    assert named(today(admin) + timedelta(weeks=4)) in partitions(admin)
    rows = admin.execute("select count(*) from mcp_tool_call_log").fetchall()
    assert rows[0][0] >= 3 * 601


def test_concurrent_retention_runs_create_partitions_only_once(
    own_place: ServerDatabase, admin: psycopg.Connection
) -> None:
    gate = Barrier(4)

    def run() -> dict[str, int]:
        gate.wait(10)
        return apply_retention(own_place.owner_dsn, RetentionPolicy(30, 30, 30))

    with ThreadPoolExecutor(4) as threads:
        done = [future.result(60) for future in [threads.submit(run) for _ in range(4)]]
    assert done == [{}] * 4
    apply_retention(own_place.owner_dsn, FOR_EVER)
    assert len(partitions(admin)) == 6


def test_retention_run_as_the_serving_role_raises_misconfigured(own_place: ServerDatabase) -> None:
    if own_place.server.role:
        pytest.skip("one user does everything here")
    with pytest.raises(Misconfigured, match="owner_url names the owner"):
        apply_retention(own_place.app_dsn, FOR_EVER)


# Answers


async def test_answer_of_a_repeated_call_is_replayed_until_the_retention_ends(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    agent, other_org = own_world.agent, own_world.other_org
    for key in ("old", "young"):
        await agent.plan(idempotencyKey=key)
    own_world.other_org_may_change = True
    await other_org.plan(idempotencyKey="old")
    admin.execute("update idempotency_answer set created_at = now() - interval '25 hours'")
    admin.execute(
        "update idempotency_answer set created_at = now() - interval '9 days' where key = 'old'"
    )
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 0)) == {}
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 7, 0)) == {
        "idempotency_answer": 2
    }
    assert (await agent.plan(idempotencyKey="young")).get("replayed") is True
    assert "replayed" not in await agent.plan(idempotencyKey="old")


async def test_retention_deletes_many_stored_answers_in_batches(
    own_world: OrgEnv, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_ROWS", 3)
    for number in range(7):
        await own_world.agent.plan(1, idempotencyKey=f"k{number}")
    admin.execute("update idempotency_answer set created_at = now() - interval '2 days'")
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 1, 0)) == {
        "idempotency_answer": 7
    }


# Tests of closed plans and runs.


async def worked_through(agent: AgentClient, word: str) -> Body:
    """Return a closed plan with research, a source that only it uses, and a shared source."""
    plan = await agent.plan([make_step(f"Look for {word}.")], name=f"Plan {word}")
    taken = await agent.take(plan, sessionId=f"session {word}")
    shared = {"title": "A shared book", "quote": "Everybody says so."}
    await agent.call(
        "store_research",
        stepId=taken["stepId"],
        kind="note",
        title=f"Note {word}",
        content=f"About {word}.",
        sources=[{"title": f"Source {word}"}, shared],
    )
    usage = {"inputTokens": 1, "model": f"model {word}"}
    await agent.submit(taken, f"Found {word}.", sessionId=f"session {word}", usage=usage)
    await agent.call(
        "store_research_output",
        planId=plan["planId"],
        mediaType="text/plain",
        title=f"Output {word}",
        content=f"All about {word}.",
    )
    return plan


async def make_finished_run(agent: AgentClient) -> Body:
    run = await agent.run(models="a")
    for stage in ("scope", "gather", "report"):
        reply = await agent.work_off(run)
        if reply["status"] == "run_complete":
            break
        await agent.feedback(run, reply.get("stageSlug") or stage)
    return run


def make_old(admin: psycopg.Connection, *ids: str) -> None:
    for table in ("plan", "run"):
        change = f"update {table} set updated_at = now() - interval '100 days'"  # noqa: S608 - ours
        admin.execute(f"{change} where id = any (%s)".encode(), (list(ids),))


async def test_retention_erases_an_expired_closed_plan_with_the_dependent_rows(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    agent, place = own_world.agent, own_world.place
    old, young = [await worked_through(agent, word) for word in ("xylophone", "marimba")]
    open_plan = await agent.plan(name="Still open")
    make_old(admin, full_id(old["planId"]), full_id(open_plan["planId"]))
    theirs = rows_of(place, own_world.other_org.org_id)
    assert apply_retention(place.owner_dsn, FOR_EVER) == {}
    gone = apply_retention(place.owner_dsn, RetentionPolicy(0, 0, 90))
    assert gone["plan"] == gone["plan_brief"] == gone["source"] == 1
    assert gone["artifact"] == 2
    left = [line for line in dump(place).splitlines() if re.search("xylophone", line)]
    assert left == []
    there = rows_of(place, agent.org_id)
    assert [table for table, rows in there.items() if full_id(old["planId"]) in str(rows)] == [
        "tombstone"
    ]
    assert "A shared book" in str(there["source"])
    assert (await agent.refused("get_plan_status", planId=old["planId"]))["code"] == "NOT_FOUND"
    for plan in (young, open_plan):
        assert (await agent.status(plan))["planId"] == plan["planId"]
    reply = await agent.call("search_sources", query="marimba")
    assert reply["hits"]
    assert rows_of(place, own_world.other_org.org_id) == theirs
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.ok
    assert verdict.note is not None
    assert "archived plans and runs were erased at " in verdict.note
    assert apply_retention(place.owner_dsn, RetentionPolicy(0, 0, 90)) == {}


async def test_retention_deletes_expired_completed_run_and_leaves_open_run(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    agent, place = own_world.agent, own_world.place
    run, open_run = await make_finished_run(agent), await agent.run()
    assert (await agent.call("get_next_job", runId=run["runId"]))["status"] == "run_complete"
    for linked in (run, open_run):
        await make_link_of_run(agent, linked)
    make_old(admin, full_id(run["runId"]), full_id(open_run["runId"]))
    gone = apply_retention(place.owner_dsn, RetentionPolicy(0, 0, 90))
    assert gone["run"] == gone["run_brief"] == gone["access_link"] == 1
    there = rows_of(place, agent.org_id)
    assert [table for table, rows in there.items() if full_id(run["runId"]) in str(rows)] == [
        "tombstone"
    ]
    assert (await agent.job(open_run))["runId"] == open_run["runId"]


async def test_retention_deletes_many_plans_in_batches_and_records_the_erasure(
    own_world: OrgEnv, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_SUBJECTS", 2)
    agent = own_world.agent
    plans = [await agent.plan(1) for _ in range(5)]
    for plan in plans:
        await agent.work_through(plan)
    make_old(admin, *(full_id(plan["planId"]) for plan in plans))
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90))["plan"] == 5
    results = await verdicts(own_world, agent.org_id)
    assert [verdict.ok for verdict in results] == [True, True, True]


async def test_retention_does_not_erase_an_expired_plan_with_a_broken_audit(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    own_world.is_sound = False
    agent = own_world.agent
    plan = await agent.plan(1)
    await agent.work_through(plan)
    make_old(admin, full_id(plan["planId"]))
    admin.execute(
        "update audit_entry set actor = 'mallory' where subject_id = %s", (full_id(plan["planId"]),)
    )
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90)) == {}
    assert (await verified(own_world, "plan", full_id(plan["planId"]))).first_broken_entry == 1


async def test_audit_verification_reports_an_erased_plan_that_is_present_again(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    own_world.is_sound = False
    agent = own_world.agent
    plan = await agent.plan(1)
    await agent.work_through(plan)
    columns = """org_id, id, name, status, revision, stall_seconds, resumed_at, completed_at,
                 fail_reason, audit_seq, audit_hash, updated_at, usage, budget"""
    selected = f"select {columns} from plan where id = %s".encode()  # noqa: S608 - ours
    stored = admin.execute(selected, (full_id(plan["planId"]),)).fetchall()
    make_old(admin, full_id(plan["planId"]))
    apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90))
    row = stored[0]
    places = ", ".join(["%s"] * len(row))
    values = [psycopg.types.json.Json(v) if isinstance(v, dict) else v for v in row]
    admin.execute(f"insert into plan ({columns}) values ({places})".encode(), values)  # noqa: S608 - ours
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.errors == (f"plan {full_id(plan['planId'])} was erased, and is there again",)


async def test_audit_verification_reports_a_deleted_erasure_record(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    own_world.is_sound = False
    agent = own_world.agent
    plan = await agent.plan(1)
    await agent.work_through(plan)
    make_old(admin, full_id(plan["planId"]))
    apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90))
    admin.execute("delete from tombstone; delete from erasure")
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.first_broken_entry == 1
    assert verdict.errors == ("erasure 1 is missing: 1 were written",)


async def test_retention_deletes_tool_calls_logged_after_org_erasure(own_world: OrgEnv) -> None:
    agent, place = own_world.agent, own_world.place
    await agent.plan()
    await erase_org(place.owner_dsn, slug_of(agent), by="operator", progress=lambda *_: None)
    await agent.ask("get_plan_status", {"planId": "x"})
    await own_world.dispatcher.calls.flush()
    assert "mcp_tool_call_log" in rows_of(place, agent.org_id)
    apply_retention(place.owner_dsn, FOR_EVER)
    assert set(rows_of(place, agent.org_id)) == LEFT
