"""Retention of the call log: weekly partitions are created in advance and dropped when expired."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import psycopg
import pytest

from erasure_checks import LEFT, rows_of, slug_of
from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from waybook.app.operations.erasure import erase_org
from waybook.errors import Misconfigured
from waybook.store.maintenance import retention
from waybook.store.maintenance.migrate import owner_connection
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


def count_calls(admin: psycopg.Connection, partition: str) -> int:
    ((count,),) = admin.execute(f"select count(*) from {partition}".encode()).fetchall()  # noqa: S608 - ours
    return int(count)


def today(admin: psycopg.Connection) -> datetime:
    ((now,),) = admin.execute("select now()").fetchall()
    timestamp: datetime = now
    return timestamp.astimezone(UTC)


def named(moment: datetime) -> str:
    monday = moment - timedelta(days=moment.weekday())
    return f"mcp_tool_call_log_{monday:%Y%m%d}"


async def test_new_calls_are_logged_in_the_partition_of_this_week(
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
    held = {name: count_calls(admin, name) for name in partitions(admin)}
    del held["mcp_tool_call_log_default"]  # This partition has the calls that prepared the test.
    assert {name: count for name, count in held.items() if count} == {named(today(admin)): 2}


def test_log_partitions_have_row_level_security_of_the_parent_table(
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
    with owner_connection(own_place.owner_dsn) as connection:
        for weeks in range(1, 8):
            retention.create_partitions(connection, now - timedelta(weeks=weeks))
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
    """No server ran in the weeks of these calls, so the weeks have no partition of their own."""
    own_world.database.frozen_now = today(admin)
    for agent in (own_world.agent, own_world.other_org):
        await agent.refused("get_next_step", planId="nope")
        await agent.refused("submit_step_result", stepId="nope", resultSummary=1)
    await own_world.dispatcher.calls.flush()
    assert partitions(admin) == ["mcp_tool_call_log_default"]
    old = today(admin) - timedelta(days=40)
    admin.execute("update mcp_tool_call_log set at = %s where tool like 'get%%'", (old,))
    gone = apply_retention(own_world.place.owner_dsn, RetentionPolicy(30, 0, 0))
    assert gone == {"mcp_tool_call_log": 2}
    assert named(today(admin) + timedelta(weeks=1)) in partitions(admin)
    left = admin.execute("select tool, count(*) from mcp_tool_call_log group by 1").fetchall()
    assert ("submit_step_result", 2) in left
    assert not [tool for tool, _ in left if tool.startswith("get")]
    assert apply_retention(own_world.place.owner_dsn, RetentionPolicy(30, 0, 0)) == {}


CALLS = """
insert into mcp_tool_call_log (org_id, at, id, tool, actor, channel, duration_ms, request_bytes,
                               response_bytes, is_error, replayed)
select o.org_id, now() + n * interval '1 hour', gen_random_uuid(), 'ping', 'ann', 'mcp', 1, 1, 1,
       false, false
  from org o, generate_series(-300, 300) n
"""


def test_calls_of_a_week_without_partition_stay_in_default_partition(
    own_world: OrgEnv, admin: psycopg.Connection
) -> None:
    admin.execute(CALLS)
    query = "select org_id, id, at from mcp_tool_call_log order by id"
    before = admin.execute(query).fetchall()
    apply_retention(own_world.place.owner_dsn, FOR_EVER)
    assert named(today(admin)) not in partitions(admin)
    assert named(today(admin) + timedelta(weeks=4)) in partitions(admin)
    assert admin.execute(query).fetchall() == before


def test_partitions_are_created_once_if_retention_runs_concurrently(
    own_place: ServerDatabase, admin: psycopg.Connection
) -> None:
    gate = Barrier(4)

    def run() -> dict[str, int]:
        gate.wait(PATIENCE_SECONDS)
        return apply_retention(own_place.owner_dsn, RetentionPolicy(30, 30, 30))

    with ThreadPoolExecutor(4) as threads:
        done = [
            future.result(PATIENCE_SECONDS) for future in [threads.submit(run) for _ in range(4)]
        ]
    assert done == [{}] * 4
    apply_retention(own_place.owner_dsn, FOR_EVER)
    assert len(partitions(admin)) == 6


def test_retention_with_the_server_database_role_raises_misconfigured(
    own_place: ServerDatabase,
) -> None:
    if own_place.server.role:
        pytest.skip("the server logs in as the owner of the database here")
    with pytest.raises(Misconfigured, match="set owner_url to a URL of the owner"):
        apply_retention(own_place.app_dsn, FOR_EVER)


async def test_retention_deletes_tool_calls_logged_after_org_erasure(own_world: OrgEnv) -> None:
    agent, place = own_world.agent, own_world.place
    await agent.plan()
    await erase_org(place.owner_dsn, slug_of(agent), by="operator", progress=lambda *_: None)
    await agent.ask("get_plan_status", {"planId": "x"})
    await own_world.dispatcher.calls.flush()
    assert "mcp_tool_call_log" in rows_of(place, agent.org_id)
    apply_retention(place.owner_dsn, FOR_EVER)
    assert set(rows_of(place, agent.org_id)) == LEFT
