"""A call that waited for a row lock reads the updated row, even if an index finds the row."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg

from embedded_postgres.processes import eventually
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from statements import prepared
from waybook.accounts.model import LOCAL_ORG
from waybook.store.plans import load
from waybook.store.plans.load import PlanRequest

#: SQL that inserts so many plans and steps that PostgreSQL uses an index.
FILL = """
insert into plan (org_id, id, name, status, revision, audit_seq, audit_hash, updated_at)
select org_id, gen_random_uuid(), 'Plan', 'executing', 1, 1, '\\x00', now()
  from org, generate_series(1, 3000);
insert into plan_brief (org_id, plan_id, research_question, created_at, created_by)
select org_id, id, 'Which?', now(), 'ann' from plan;
insert into plan_step (org_id, id, plan_id, step_order, step_type, status, attempt)
select org_id, gen_random_uuid(), id, 1, 'search', 'pending', 1 from plan;
analyze;
"""


@contextmanager
def open_transaction(place: ServerDatabase) -> Iterator[psycopg.Connection]:
    """Open a transaction for the local org, with the database role of the server."""
    with psycopg.connect(place.app_dsn, autocommit=True) as connection, connection.transaction():
        if place.server.role:
            connection.execute(f"set local role {place.server.role}".encode())
        connection.execute(f"set local app.org_id = '{LOCAL_ORG}'".encode())
        connection.execute(b"set local plan_cache_mode = force_generic_plan")
        yield connection


def test_call_that_waited_for_a_lock_reads_the_updated_row(own_place: ServerDatabase) -> None:
    with psycopg.connect(own_place.admin_dsn, autocommit=True) as admin:
        admin.execute(FILL.encode())
        row = admin.execute("select plan_id::text, id::text from plan_step limit 1").fetchone()
        assert row is not None
        plan_id, step_id = row
        lock = load.load_statements(PlanRequest(plan_id=plan_id), lock=True)[0]

        def locked() -> list[tuple[object, ...]]:
            with open_transaction(own_place) as connection:
                return connection.execute(prepared(connection, lock).encode()).fetchall()

        def waits() -> bool:
            counted = admin.execute("select count(*) from pg_locks where not granted").fetchone()
            return counted != (0,)

        with ThreadPoolExecutor(1) as other, open_transaction(own_place) as first:
            changing = f"update plan set name = 'Changed' where id = '{plan_id}'"  # noqa: S608 - id from a row
            first.execute(changing.encode())
            touching = f"update plan_step set attempt = 2 where id = '{step_id}'"  # noqa: S608 - as above
            first.execute(touching.encode())
            waiting = other.submit(locked)
            eventually(waits, "the other waits")
            first.execute(b"commit; begin")
            ((returned_id, name, *_),) = waiting.result(PATIENCE_SECONDS)
    assert (returned_id, name) == (plan_id, "Changed")
