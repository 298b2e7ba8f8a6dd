"""Retention of stored answers, closed plans and closed runs, which deletes only expired rows."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from database_dump import dump
from erasure_checks import rows_of, verdicts, verified
from foreign_records import make_link_of_run
from org_env import AgentClient, Body, OrgEnv, make_step
from postgres_servers import ServerDatabase
from waybook.store.maintenance import retention
from waybook.store.maintenance.retention import RetentionPolicy, apply_retention

FOR_EVER = RetentionPolicy(0, 0, 0)


@pytest.fixture
def admin(own_place: ServerDatabase) -> Iterator[psycopg.Connection]:
    with psycopg.connect(own_place.admin_dsn, autocommit=True) as connection:
        yield connection


async def test_retention_deletes_only_expired_stored_answers(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    agent, other_org = own_world.agent, own_world.other_org
    for key in ("old", "young"):
        await agent.plan(idempotencyKey=key)
    own_world.other_org_may_change = True
    await other_org.plan(idempotencyKey="old")
    admin.execute("update idempotency_answer set created_at = now() - interval '25 hours'")
    admin.execute(
        "update idempotency_answer set created_at = now() - interval '9 days'"
        " where key like 'old@%'"
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


async def worked_through(agent: AgentClient, word: str) -> Body:
    """Return a closed plan with a note and an output.

    The note has two sources; the notes of all these plans share one of the sources.
    """
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


async def test_retention_erases_an_expired_plan_with_dependent_rows(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    agent, place = own_world.agent, own_world.place
    old, young = [await worked_through(agent, word) for word in ("xylophone", "marimba")]
    open_plan = await agent.plan(name="Still open")
    make_old(admin, old["planId"], open_plan["planId"])
    theirs = rows_of(place, own_world.other_org.org_id)
    assert apply_retention(place.owner_dsn, FOR_EVER) == {}
    gone = apply_retention(place.owner_dsn, RetentionPolicy(0, 0, 90))
    assert gone["plan"] == gone["plan_brief"] == gone["source"] == 1
    assert gone["artifact"] == 2
    left = [line for line in dump(place).splitlines() if re.search("xylophone", line)]
    assert left == []
    there = rows_of(place, agent.org_id)
    assert [table for table, rows in there.items() if old["planId"] in str(rows)] == ["tombstone"]
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
    make_old(admin, run["runId"], open_run["runId"])
    gone = apply_retention(place.owner_dsn, RetentionPolicy(0, 0, 90))
    assert gone["run"] == gone["run_brief"] == gone["access_link"] == 1
    there = rows_of(place, agent.org_id)
    assert [table for table, rows in there.items() if run["runId"] in str(rows)] == ["tombstone"]
    assert (await agent.job(open_run))["runId"] == open_run["runId"]


async def test_retention_deletes_many_plans_in_batches_and_records_the_erasure(
    own_world: OrgEnv, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_SUBJECTS", 2)
    agent = own_world.agent
    plans = [await agent.plan(1) for _ in range(5)]
    for plan in plans:
        await agent.work_through(plan)
    make_old(admin, *(plan["planId"] for plan in plans))
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90))["plan"] == 5
    results = await verdicts(own_world, agent.org_id)
    assert [verdict.ok for verdict in results] == [True, True, True]


async def test_retention_keeps_an_expired_plan_with_broken_audit(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    own_world.is_sound = False
    agent = own_world.agent
    plan = await agent.plan(1)
    await agent.work_through(plan)
    make_old(admin, plan["planId"])
    admin.execute(
        "update audit_entry set actor = 'mallory' where subject_id = %s", (plan["planId"],)
    )
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90)) == {}
    assert (await verified(own_world, "plan", plan["planId"])).first_broken_entry == 1


async def test_audit_verification_reports_an_erased_plan_that_reappears(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    own_world.is_sound = False
    agent = own_world.agent
    plan = await agent.plan(1)
    await agent.work_through(plan)
    columns = """org_id, id, name, status, revision, stall_seconds, resumed_at, completed_at,
                 fail_reason, audit_seq, audit_hash, updated_at, usage, budget"""
    selected = f"select {columns} from plan where id = %s".encode()  # noqa: S608 - ours
    stored = admin.execute(selected, (plan["planId"],)).fetchall()
    make_old(admin, plan["planId"])
    apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90))
    row = stored[0]
    places = ", ".join(["%s"] * len(row))
    values = [psycopg.types.json.Json(v) if isinstance(v, dict) else v for v in row]
    admin.execute(f"insert into plan ({columns}) values ({places})".encode(), values)  # noqa: S608 - ours
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.errors == (f"plan {plan['planId']} was erased, and is there again",)


async def test_audit_verification_reports_a_deleted_erasure_record(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    own_world.is_sound = False
    agent = own_world.agent
    plan = await agent.plan(1)
    await agent.work_through(plan)
    make_old(admin, plan["planId"])
    apply_retention(own_world.place.owner_dsn, RetentionPolicy(0, 0, 90))
    admin.execute("delete from tombstone; delete from erasure")
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.first_broken_entry == 1
    assert verdict.errors == ("erasure 1 is missing: 1 were written",)
