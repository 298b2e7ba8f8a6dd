"""Erasure of an org: all its data is deleted, other orgs keep theirs, and a record remains."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest

from database_dump import dump
from erasure_checks import (
    LEFT,
    add_user,
    erased_org,
    ignore_progress,
    rows_of,
    slug_of,
    tables,
    verdicts,
)
from foreign_records import all_foreign_records
from org_env import AgentClient, OrgEnv, check_audit, make_step
from waybook.accounts.model import LOCAL_ORG, NewUser
from waybook.app.accounts import members
from waybook.app.operations.erasure import contexts_of_all_orgs, erase_org, erase_user
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel, Scope
from waybook.errors import Busy, NotFound
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance import owner


@pytest.fixture
def canary() -> str:
    """Return a unique word, which must not be in the database after an erasure."""
    return f"canary{new_uuid().replace('-', '')}"


async def filled(world: OrgEnv, canary: str) -> None:
    """Fill every table for two orgs, and write the canary into all texts of the first org."""
    world.other_org_may_change = True
    await all_foreign_records(world.agent)
    await all_foreign_records(world.other_org)
    for agent in (world.agent, world.other_org):
        await add_user(world.place, agent, f"user of {agent.org_id}")
    with psycopg.connect(world.place.admin_dsn) as admin:
        plant(admin, world.agent.org_id, canary)
    await make_notice(world)
    with psycopg.connect(world.place.admin_dsn) as admin:
        admin.execute(LEFT_OUT.encode())
    for agent in (world.agent, world.other_org):
        for text in ("once", "again"):
            await agent.call("store_research", kind="note", title="Twice", content=text)


#: SQL that records every passage as impossible to index.
LEFT_OUT = """insert into passage_quarantine
              select org_id, subject_id, part, 'm', 'pgvector', now() from passage"""


def plant(admin: psycopg.Connection, org_id: UUID, canary: str) -> None:
    """Write the canary into every text and JSON column of the org's rows."""
    columns = admin.execute(
        """select c.relname, a.attname, format_type(a.atttypid, -1)
             from pg_attribute a join pg_class c on c.oid = a.attrelid
            where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
              and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
              and not c.relispartition and format_type(a.atttypid, -1) in ('text', 'json')
              and exists (select from pg_attribute o
                           where o.attrelid = c.oid and o.attname = 'org_id')"""
    ).fetchall()
    for table, column, kind in columns:
        word = f"'{canary}'" if kind == "text" else f"""'{{"said": "{canary}"}}'"""
        expression = f"{column}::text || {word}" if kind == "text" else word
        change = f"update {table} set {column} = {expression} where org_id = '{org_id}'"  # noqa: S608 - ours
        try:
            with admin.transaction():
                admin.execute(change.encode())
        except (psycopg.errors.CheckViolation, psycopg.errors.ForeignKeyViolation):
            # This column allows only certain values, or other rows refer to it.
            pass
    ((planted,),) = admin.execute(
        "select count(*) from plan where strpos(name, %s) > 0", (canary,)
    ).fetchall()
    assert planted


async def make_notice(world: OrgEnv) -> None:
    with psycopg.connect(world.place.admin_dsn) as admin:
        for agent in (world.agent, world.other_org):
            admin.execute(
                """insert into webhook_delivery (org_id, id, event, data, at, due_at, expires_at)
                   values (%s, %s, 'x', %s, now(), now(), now())""",
                (agent.org_id, new_uuid(), json.dumps({"by": {"user": agent.caller.user}})),
            )


async def test_erasing_an_org_removes_exactly_the_rows_of_that_org(
    own_world: OrgEnv, canary: str
) -> None:
    world, place = own_world, own_world.place
    ours, theirs = world.agent.org_id, world.other_org.org_id
    # Do not compare the rows with the audit at the end, because only the rows contain the canary.
    world.is_sound = False
    await filled(world, canary)
    before, local = rows_of(place, theirs), rows_of(place, LOCAL_ORG)
    had = rows_of(place, ours)
    assert set(tables(place)) - set(had) - set(rows_of(place, theirs)) <= LEFT | {"passage_vector"}
    assert canary in dump(place)
    progress_calls: list[tuple[int, int]] = []
    slug = f"{slug_of(world.agent)}{canary}"  # The slug contains the canary too.
    erased = await erase_org(
        place.owner_dsn, slug, by="operator", progress=lambda *at: progress_calls.append(at)
    )
    assert progress_calls[-1][0] == progress_calls[-1][1] == len(progress_calls)
    assert erased.counts == {table: len(rows) for table, rows in had.items()}
    assert set(rows_of(place, ours)) == LEFT
    left = dump(place)
    assert canary not in left
    assert slug_of(world.agent) not in left
    assert rows_of(place, theirs) == before
    assert rows_of(place, LOCAL_ORG) == local
    assert [v.ok for v in await verdicts(world, ours)] == [True]
    await check_audit(world.dispatcher.services, theirs)


async def test_erasure_record_of_an_org_contains_time_operator_and_counts(
    own_world: OrgEnv,
) -> None:
    agent = own_world.agent
    await agent.work_through(await agent.plan(2))
    entries = 5
    await erased_org(own_world.place, slug_of(agent))
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.note is not None
    assert "the org was erased at " in verdict.note
    assert "by operator; chains gone: 1" in verdict.note
    assert verdict.entries == entries
    judge = RequestContext(services=own_world.dispatcher.services, caller=agent.caller)
    assert agent.org_id in {ctx.caller.org_id for ctx in await contexts_of_all_orgs(judge)}
    assert agent.org_id not in await own_world.database.list_org_ids()


async def test_calls_of_an_erased_org_fail_and_create_no_rows(own_world: OrgEnv) -> None:
    agent = own_world.agent
    plan = await agent.plan()
    await erased_org(own_world.place, slug_of(agent))
    assert (await agent.refused("get_next_step", planId=plan["planId"]))["code"] == "NOT_FOUND"
    named = {"name": "New", "researchQuestion": "Q?", "steps": [make_step()]}
    assert (await agent.ask("create_research_plan", named)).is_error
    assert set(rows_of(own_world.place, agent.org_id)) == LEFT


async def test_local_org_can_be_used_again_after_erasure(own_world: OrgEnv) -> None:
    local = AgentClient(
        own_world.dispatcher, Caller(org_id=LOCAL_ORG, user="local", channel=Channel.MCP)
    )
    for _ in range(2):
        plan = await local.plan()
        await erased_org(own_world.place, "local")
        assert (await local.refused("get_plan_status", planId=plan["planId"]))[
            "code"
        ] == "NOT_FOUND"
    assert set(rows_of(own_world.place, LOCAL_ORG)) == {"org", *LEFT}
    assert [v.ok for v in await verdicts(own_world, LOCAL_ORG)] == [True, True]
    await local.plan()


async def test_erasing_the_local_org_starts_a_new_audit_chain(own_world: OrgEnv) -> None:
    """The old chain keeps only records of the erasure, so verification must not start from it."""
    place = own_world.place
    local = AgentClient(
        own_world.dispatcher, Caller(org_id=LOCAL_ORG, user="local", channel=Channel.MCP)
    )
    call = RequestContext(services=own_world.dispatcher.services, caller=local.caller)
    for name in ("ann", "bob"):
        await members.add_user(call, NewUser(name=name, scopes=(Scope.REVIEW,)))
    await erase_user(place.owner_dsn, "local", "ann", by="operator", progress=ignore_progress)
    await erased_org(place, "local")
    await members.add_user(call, NewUser(name="eve", scopes=(Scope.REVIEW,)))
    await check_audit(own_world.dispatcher.services, LOCAL_ORG)
    assert [v.ok for v in await verdicts(own_world, LOCAL_ORG)] == [True, True]


async def test_erasing_an_unknown_org_is_refused(own_world: OrgEnv) -> None:
    with pytest.raises(NotFound, match="there is no org “nobody” here"):
        await erased_org(own_world.place, "nobody")


async def test_erasing_an_org_with_a_locked_plan_raises_busy(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "LOCK_TIMEOUT", "50ms")
    agent, place = own_world.agent, own_world.place
    plan = await agent.plan()
    before = rows_of(place, agent.org_id)
    with psycopg.connect(place.admin_dsn) as busy:
        busy.execute(
            "select from plan where org_id = %s and id = %s for update",
            (agent.org_id, plan["planId"]),
        )
        with pytest.raises(Busy, match="nothing was erased"):
            await erased_org(place, slug_of(agent))
    assert rows_of(place, agent.org_id) == before


KILLED = """
import asyncio, os, signal, sys
from waybook.app.operations.erasure import erase_org
def killed(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(erase_org(sys.argv[1], sys.argv[2], by="operator", progress=killed))
"""


async def test_org_erasure_killed_midway_changes_nothing_and_can_be_repeated(
    own_world: OrgEnv,
) -> None:
    agent, place = own_world.agent, own_world.place
    await agent.work_through(await agent.plan())
    before = rows_of(place, agent.org_id)
    for when in (1, 8, len(tables(place)) - len(LEFT)):
        command = [sys.executable, "-c", KILLED, place.owner_dsn, slug_of(agent), str(when)]
        done = subprocess.run(command, check=False)  # noqa: ASYNC221 - nothing else goes on
        assert done.returncode == -signal.SIGKILL
    assert rows_of(place, agent.org_id) == before
    await erased_org(place, slug_of(agent))
    assert set(rows_of(place, agent.org_id)) == LEFT


TAMPERINGS = {
    "who did it": "update erasure set by = 'mallory' where org_id = %(org)s",
    "when it was": "update erasure set at = '2001-02-03 04:05:06+00' where org_id = %(org)s",
    "how much it was": "update erasure set counts = '{}' where org_id = %(org)s",
    "its seal": "update erasure set hash = sha256('x') where org_id = %(org)s",
    "a chain's length": "update tombstone set entries = entries - 1 where org_id = %(org)s",
    "a chain's seal": "update tombstone set seal_before = sha256('x') where org_id = %(org)s",
    "a chain that is said to go on": """update tombstone set seal_after = seal_before
                                         where org_id = %(org)s""",
    "a chain left out": "delete from tombstone where org_id = %(org)s",
    "a chain added": """insert into tombstone
                        select org_id, 1, gen_random_uuid(), 'plan', 9, '\\x00'
                          from erasure where org_id = %(org)s""",
}


@pytest.fixture
def tampering(own_world: OrgEnv) -> Iterator[psycopg.Connection]:
    own_world.is_sound = False
    with psycopg.connect(own_world.place.admin_dsn, autocommit=True) as admin:
        yield admin


@pytest.mark.parametrize("how", TAMPERINGS)
async def test_audit_verification_reports_a_tampered_erasure_record(
    own_world: OrgEnv, tampering: psycopg.Connection, how: str
) -> None:
    agent = own_world.agent
    await agent.plan()
    await erased_org(own_world.place, slug_of(agent))
    tampering.execute(TAMPERINGS[how].encode(), {"org": agent.org_id})
    (verdict,) = await verdicts(own_world, agent.org_id)
    assert verdict.first_broken_entry == 1
    assert verdict.errors[0].startswith("erasure 1 does not match its seal")
